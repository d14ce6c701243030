/**
 * Anything a handler may return, as JSON (P4). Never throws, never hangs, and what JSON can hold comes
 * out equal. The table of conversions is in this folder's README.
 *
 * `JSON.stringify` does most of it: it drops what has no place in JSON, and writes NaN as null. Before
 * it goes into an object it shows it to `replace`, which gives it a plain one instead. Realms do not
 * matter (a Map out of an iframe is a Map), so objects are told apart by their tag, never by
 * `instanceof`.
 */

/** @import { Json } from "./protocol.js" */

/** Arrays and objects inside one another; the frame around them may have 128. */
const DEEPEST = 120;

const TOO_LONG = Symbol();

/**
 * `value` as JSON text; `undefined` when that is longer than `most` bytes.
 * @param {unknown} value
 * @param {number} most
 * @returns {string | undefined}
 */
export function toText(value, most) {
  /** Of each object we are in: what is written for it, and what it is. @type {[any, any][]} */
  const around = [];
  /** Values that may still come: each makes two bytes or more, so what has too many is too long. */
  let left = most / 2;

  /** @this {any} what has the member @param {string} _ @param {any} member */
  function replace(_, member) {
    while (around.length && around[0][0] !== this) around.shift();
    if (member !== undefined && --left < 0) throw TOO_LONG;
    if (typeof member === "bigint") return String(member);
    if (!member || typeof member !== "object") return member;
    if (around.some(([, object]) => object === member)) return "[circular]";
    if (around.length === DEEPEST) return "[too deep]";
    const plain = read(() => plainOf(member, left));
    around.unshift([plain, member]);
    return plain;
  }

  try {
    const text = JSON.stringify(read(() => value), replace) ?? "null";
    // Lone surrogates come as escapes: UTF-8 has no place for them.
    const whole = text.replace(/\\(ud\w{3}|.)/g, (escape) => (escape[2] ? "\ufffd" : escape));
    return new TextEncoder().encode(whole).length > most ? undefined : whole;
  } catch {
    return undefined;
  }
}

/**
 * `value` as plain JSON; `undefined` when it is longer than `most` bytes.
 * @param {unknown} value
 * @param {number} [most]
 * @returns {Json}
 */
export function toJson(value, most = 2 ** 20) {
  const text = toText(value, most);
  return text && JSON.parse(text);
}

/**
 * What may be hidden behind a getter, a proxy or a `toJSON` that throws.
 * @param {() => any} get
 */
export function read(get) {
  try {
    const value = get();
    return typeof value?.toJSON === "function" ? value.toJSON() : value;
  } catch (error) {
    if (error === TOO_LONG) throw error;
    return "[error]";
  }
}

/**
 * What is written for an object.
 * @param {any} value
 * @param {number} left
 */
function plainOf(value, left) {
  const tag = Object.prototype.toString.call(value).slice(8, -1);
  if (/Array$/.test(tag)) return list(value, left); // of any type
  if (tag === "ArrayBuffer") return list(new Uint8Array(value), left);
  if (tag === "Map") return map(value);
  if (tag === "Set") return [...value];
  if (typeof value.nodeName === "string") return describe(value);
  const isError = /^(Error|DOMException)$/.test(tag);
  return object(isError ? ["name", "message"] : Object.keys(value), (key) => value[key]);
}

/**
 * @param {any} items
 * @param {number} left
 */
function list(items, left) {
  if (items.length > left) throw TOO_LONG;
  return Array.from(items, (_, at) => read(() => items[at]));
}

/**
 * @param {any[]} keys
 * @param {(key: string) => unknown} get
 */
const object = (keys, get) => Object.fromEntries(keys.map((key) => [key, read(() => get(key))]));

/**
 * @param {Map<unknown, unknown>} value
 */
function map(value) {
  const keys = [...value.keys()];
  return keys.every((key) => typeof key === "string") ? object(keys, (key) => value.get(key)) : [...value];
}

/**
 * @param {any} node
 * @returns {string} `<div#id.class.other>`
 */
const describe = ({ nodeName, id, classList }) =>
  `<${nodeName.toLowerCase()}${id ? `#${id}` : ""}${["", ...(classList ?? [])].join(".")}>`;
