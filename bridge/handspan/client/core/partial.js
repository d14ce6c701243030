/**
 * JSON that is still on its way: as much of the value as its text tells so far. The text is fed piece
 * by piece, and each character is looked at once, so the work is linear in its length however small the
 * pieces are. A pushdown machine: a state is a function of the next character that gives the next state;
 * what is open around it stands on a stack.
 *
 *     {"city":"Par        { city: "Par" }           a string is shown as it grows
 *     {"city":"Paris","n  { city: "Paris" }         half a key is not
 *     {"n":12             {}                        nor half a number: 12 may become 123
 *
 * What is shown is never taken back: strings grow, arrays and objects gain members. (One exception: of
 * a key that comes twice the last value counts, as in JSON.parse, so the first one goes.) Nothing
 * throws: where the text stops being JSON the value stays as it was, for good. When the text is whole
 * the value equals JSON.parse(text), down to own members that are named `__proto__`.
 *
 * A value that was given out is not changed any more. What grows after that is a copy, one level deep,
 * of the arrays and objects that are still open; all others are the same objects as before. So that the
 * copies too stay linear, what is wide is shown in steps: when enough has come to be worth them.
 */

/** @import { Json } from "./protocol.js" */

/**
 * @typedef {(char: string) => Step} Step  may throw where the text is no JSON
 *
 * @typedef {object} Open  an array or object that has begun
 * @property {any} node
 * @property {any} key  where its next member goes, or the one that grows is
 * @property {number} size  how many members came before that one
 * @property {boolean} [seen]  it was given out
 *
 * @typedef {ReturnType<typeof makePartial>} Partial
 */

/** Arrays and objects inside one another; arguments that are deeper are refused. *Source:* protocol.md. */
const DEEPEST = 128;

/** So many members of what is open are copied without a thought: a few microseconds. */
const SMALL = 256;

/** Of more, so many at most for each character that has come. */
const SHARE = 4;

/**
 * One state for what stands between the tokens: white space leaves it as it is.
 * @param {Step} step
 */
function between(step) {
  /** @type {Step} */
  const here = (char) => (/[ \t\n\r]/.test(char) ? here : step(char));
  return here;
}

/** What is no JSON leads here, and nothing leads away. @type {Step} */
const stuck = () => stuck;

export function makePartial() {
  /** What is open, outermost first. @type {Open[]} */
  const around = [];
  /** @type {Json} */
  let root;
  /** Of a string what it says so far; of a number or a literal its characters. */
  let text = "";
  /** Half a surrogate pair at the end of a string: shown with its other half. */
  let half = "";
  /** An escape so far. */
  let escape = "";
  let isKey = false;
  /** `text` is more than what the value has of it. */
  let grown = false;
  /** What was given out last. @type {Json} */
  let shown;
  /** How long the text was then; -Infinity: whatever is new is shown. */
  let shownAt = 0;

  const value = between((char) => {
    if (char === '"') return quote(false);
    if (char === "{") return open({});
    if (char === "[") return open([]);
    text = char;
    return token;
  });
  const key = between((char) => (char === '"' ? quote(true) : stuck));
  const colon = between((char) => (char === ":" ? value : stuck));
  const first = between((char) => (/[\]}]/.test(char) ? after(char) : member()(char)));
  const after = between((char) => {
    if (char === ",") {
      innermost().key = ++innermost().size; // an object's is replaced before it counts
      return member();
    }
    if (char !== (isList() ? "]" : "}")) return stuck;
    around.pop();
    return after;
  });

  /** Throws when nothing is open: then the text should have ended. */
  const innermost = () => /** @type {Open} */ (around.at(-1));
  const isList = () => Array.isArray(innermost().node);
  const member = () => (isList() ? value : key);

  /** @param {any} node */
  function open(node) {
    if (around.length === DEEPEST) return stuck;
    put(node);
    around.push({ node, key: 0, size: 0 });
    return first;
  }

  /** A number or a literal; only what follows tells that it is complete. @type {Step} */
  function token(char) {
    if (/[ \t\n\r,\]}]/.test(char)) {
      put(JSON.parse(text));
      return after(char);
    }
    text += char;
    return token;
  }

  /** @param {boolean} ofKey */
  function quote(ofKey) {
    isKey = ofKey;
    text = half = "";
    if (!isKey) put("");
    return string;
  }

  /** @type {Step} */
  function string(char) {
    if (char === "\\") {
      escape = char;
      return escaped;
    }
    if (char < " ") return stuck;
    if (char !== '"') return say(char);
    text += half;
    grown = false;
    if (!isKey) {
      put(text);
      return after;
    }
    innermost().key = text;
    return colon;
  }

  /** @type {Step} */
  function escaped(char) {
    escape += char;
    return escape.length < (escape[1] === "u" ? 6 : 2) ? escaped : say(JSON.parse(`"${escape}"`));
  }

  /** @param {string} chars */
  function say(chars) {
    const said = half + chars;
    half = /[\ud800-\udbff]$/.test(said) ? said.slice(-1) : "";
    text += half ? said.slice(0, -1) : said;
    grown = !isKey;
    return string;
  }

  /**
   * Puts a member into the innermost that is open, or into the one `at` that place.
   * @param {Json} member
   * @param {number} [at]
   */
  function put(member, at = around.length - 1) {
    if (at < 0) {
      root = member;
      return;
    }
    const home = around[at];
    const { node, key } = home;
    if (home.seen || (key === "__proto__" && !Object.hasOwn(node, key))) {
      home.seen = false;
      home.node = Array.isArray(node) ? node.slice() : { ...node, [key]: member }; // calls no setter
      put(home.node, at - 1);
    }
    home.node[key] = member;
  }

  let step = value;

  const partial = {
    /** Of the text so far. */
    length: 0,

    /** @param {string} chars  the next piece of the text */
    feed(chars) {
      partial.length += chars.length;
      try {
        for (const char of chars) step = step(char);
      } catch {
        step = stuck;
      }
    },

    /** No more comes: a number that stands alone is complete now. */
    end() {
      const { length } = partial;
      if (step === token && !around.length) partial.feed(" ");
      partial.length = length;
      shownAt = -Infinity;
    },

    /** The value so far; undefined: nothing has come. The same one as before when nothing is new. */
    get value() {
      let size = 0;
      for (const one of around) size += one.size;
      if (size > SMALL && size > (partial.length - shownAt) * SHARE) return shown;
      shownAt = partial.length;
      if (grown) put(text);
      grown = false;
      for (const one of around) one.seen = true;
      shown = root;
      return shown;
    },
  };
  return partial;
}
