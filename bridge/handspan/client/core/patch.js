/**
 * JSON Patch (RFC 6902) over plain JSON, with structural sharing: what a patch does not touch is the
 * same object afterwards, and the input is never changed. All or nothing.
 * Names that live on prototypes are ordinary names: only own members are read, and members are only
 * ever made by spread and computed keys, which define and never call a setter.
 */

/** @import { Json, PatchOperation } from "./protocol.js" */

/**
 * The document after all operations.
 * @param {Json} document
 * @param {readonly PatchOperation[]} operations
 * @returns {Json}
 * @throws {Error} when one of them fails; then none counts
 */
export const patch = (document, operations) => operations.reduce(operate, document);

/**
 * Equal as JSON: order of members does not matter, numbers by value, true is not 1.
 * @param {Json} a
 * @param {Json} b
 * @returns {boolean}
 */
export function equal(a, b) {
  if (a === b || Object(a) !== a || Object(b) !== b) return a === b;
  const keys = Object.keys(a);
  return (
    Array.isArray(a) === Array.isArray(b) &&
    keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && equal(a[key], b[key]))
  );
}

/**
 * To copy and to move is to add what is there already.
 * @param {Json} document
 * @param {PatchOperation} operation
 * @returns {Json}
 */
function operate(document, { op, path, from, value }) {
  const to = pointer(path);
  if (op === "remove") return write(document, to, op);
  if (op === "test") {
    need(equal(get(document, to), value));
    return document;
  }
  if (op === "copy" || op === "move") {
    const source = pointer(from);
    value = get(document, source);
    if (op === "move") {
      if (path === from) return document;
      need(!path.startsWith(`${from}/`));
      document = write(document, source, "remove");
    }
    op = "add";
  }
  need(value !== undefined && /^(add|replace)$/.test(op));
  return to.length ? write(document, to, /** @type {"add" | "replace"} */ (op), value) : value;
}

/**
 * @param {Json} document
 * @param {string[]} path
 * @returns {Json}
 */
const get = (document, path) => path.reduce((node, key) => node[place(node, key)], document);

/**
 * The node with one of its descendants written; every node on the way is a new one.
 * @param {Json} node
 * @param {string[]} path  not empty: a root cannot be removed, and is written by being replaced
 * @param {"add" | "replace" | "remove"} how
 * @param {Json} [value]
 * @returns {Json}
 */
function write(node, [key, ...rest], how, value) {
  if (rest.length) {
    value = write(node[place(node, key)], rest, how, value);
    how = "replace";
  }
  const at = place(node, key, how === "add");
  if (Array.isArray(node))
    return node.toSpliced(at, Number(how !== "add"), ...(how === "remove" ? [] : [value]));
  const { [at]: _, ...others } = node;
  return how === "remove" ? others : { ...node, [at]: value };
}

/**
 * Where `key` is in `node`; with `add`, where it may come.
 * @param {Json} node
 * @param {string} key
 * @param {boolean} [add]
 * @returns {any}
 */
function place(node, key, add) {
  need(node && typeof node === "object");
  if (!Array.isArray(node)) {
    need(add || Object.hasOwn(node, key));
    return key;
  }
  const at = key === "-" ? node.length : Number(key);
  need(String(at) === key || key === "-");
  need(add ? at <= node.length : at < node.length);
  return at;
}

/**
 * @param {any} text  RFC 6901
 * @returns {string[]}
 */
function pointer(text) {
  const [root, ...keys] = text.split("/");
  need(!root && !/~(?![01])/.test(text));
  return keys.map((/** @type {string} */ key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** @param {unknown} holds */
function need(holds) {
  if (!holds) throw new Error();
}
