import assert from "node:assert/strict";
import test from "node:test";
import { makePartial } from "../../bridge/handspan/client/core/partial.js";

/** What is shown once each of the pieces has come. */
function shown(...pieces) {
  const partial = makePartial();
  for (const piece of pieces) partial.feed(piece);
  return partial.value;
}

/** Dice that fall the same in every run: mulberry32. */
function dice(seed) {
  const chance = () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (count) => Math.floor(chance() * count);
  return { below, pick: (items) => items[below(items.length)] };
}

const STRINGS = ["", "a", "Paris", 'a "quote"', "back\\slash/", "\n\t\b\f\r\u0000", "é", "日本", "😀", "x😀y", "\ud83d", "\ude00\ud83d", "\u2028", "{[,:]}"];
const KEYS = [...STRINGS, "__proto__", "constructor", "toString", "hasOwnProperty", "length", "0", "1", "-1", "k", "m", "n"];
const SCALARS = [0, -0, 1, -12, 3.25, 1e21, -2.5e-7, 12345678901234567890, true, false, null];

function anyJson({ below, pick }, depth) {
  const kind = depth ? below(5) : below(2);
  if (kind === 0) return pick(SCALARS);
  if (kind === 1) return pick(STRINGS) + pick(STRINGS);
  const members = Array.from({ length: below(4) }, () => anyJson({ below, pick }, depth - 1));
  return kind < 3 ? members : Object.fromEntries(members.map((member) => [pick(KEYS), member]));
}

/** One of the many texts that a value has. */
function textOf({ below, pick }, value) {
  const space = () => pick(["", "", "", " ", "\n", "\t\r "]);
  const hex = (char) => `\\u${char.charCodeAt().toString(16).padStart(4, "0")}`;
  const string = (said) => `"${[...said].map((char) => (below(4) ? JSON.stringify(char).slice(1, -1) : char.split("").map(hex).join(""))).join("")}"`;
  const write = (node) => {
    if (typeof node === "string") return string(node);
    if (Array.isArray(node)) return `[${space()}${node.map(write).map((text) => text + space()).join(`,${space()}`)}]`;
    if (!node || typeof node !== "object") return JSON.stringify(node);
    const members = Object.keys(node).map((key) => `${string(key)}${space()}:${space()}${write(node[key])}${space()}`);
    return `{${space()}${members.join(`,${space()}`)}}`;
  };
  return space() + write(value) + space();
}

/** Whether nothing of what was shown before is taken back. */
function extended(before, after) {
  if (before === undefined || Object.is(before, after)) return true;
  if (typeof before === "string") return typeof after === "string" && after.startsWith(before);
  if (!before || !after || typeof before !== "object" || typeof after !== "object") return false;
  const keys = Object.keys(before);
  return Array.isArray(before) === Array.isArray(after) && keys.every((key) => Object.hasOwn(after, key) && extended(before[key], after[key]));
}

const cut = (text, places) => places.map((place, at) => text.slice(places[at - 1] ?? 0, place));

for (const [text, value] of [
  ["", undefined],
  [" \n", undefined],
  ["{", {}],
  ['{"ci', {}],
  ['{"city"', {}],
  ['{"city" :', {}],
  ['{"city":"', { city: "" }],
  ['{"city":"Par', { city: "Par" }],
  ['{"city":"Par\\', { city: "Par" }],
  ['{"city":"Par\\u00e', { city: "Par" }],
  ['{"city":"Par\\u00e9', { city: "Paré" }],
  ['{"city":"Paris","n', { city: "Paris" }],
  ['{"n":12', {}],
  ['{"n":12,', { n: 12 }],
  ['{"n":12 ', { n: 12 }],
  ['{"on":tru', {}],
  ['{"on":true', {}],
  ['{"on":true}', { on: true }],
  ['{"a":{"b":[1,2', { a: { b: [1] } }],
  ['{"a":[', { a: [] }],
  ['{"a":[{', { a: [{}] }],
  ['{"a":[{}', { a: [{}] }],
  ['"😀', "😀"],
  ['"\\ud83d', ""],
  ['"\\ud83d\\ude0', ""],
  ['"\\ud83d\\ude00', "😀"],
  ['"\\ud83dx', "\ud83dx"],
  ['"\ud83d', ""],
  ['"\ud83d"', "\ud83d"],
])
  test(`of ${JSON.stringify(text)} is shown ${JSON.stringify(value)}`, () => {
    assert.deepEqual(shown(text), value);
    assert.deepEqual(shown(...text.split("")), value);
  });

test("P3: whatever the value and the pieces, what is shown only grows, and in the end it is the value", () => {
  const random = dice(1);
  for (let round = 0; round < 500; round++) {
    const text = textOf(random, anyJson(random, 4));
    const places = Array.from({ length: random.below(12) }, () => random.below(text.length + 1)).sort((a, b) => a - b);
    const partial = makePartial();
    let before;
    for (const piece of cut(text, [...places, text.length])) {
      partial.feed(piece);
      assert.ok(extended(before, partial.value), text);
      before = partial.value;
    }
    partial.end();
    assert.deepEqual(partial.value, JSON.parse(text), text);
  }
});

test("at every cut of a text the same is shown, however it came there", () => {
  const random = dice(2);
  for (let round = 0; round < 60; round++) {
    const text = textOf(random, anyJson(random, 3));
    const slow = makePartial();
    let before;
    for (let end = 0; end <= text.length; end++) {
      slow.feed(text.slice(end - 1, end));
      assert.deepEqual(slow.value, shown(text.slice(0, end)), text.slice(0, end));
      assert.ok(extended(before, slow.value), text.slice(0, end));
      before = slow.value;
    }
  }
});

test("what was shown is never changed afterwards, and what is closed is the same object", () => {
  const random = dice(3);
  for (let round = 0; round < 60; round++) {
    const text = textOf(random, anyJson(random, 3));
    const partial = makePartial();
    const views = [...text].map((char) => {
      partial.feed(char);
      return [partial.value, JSON.stringify(partial.value)];
    });
    for (const [value, then] of views) assert.equal(JSON.stringify(value), then, text);
  }
  const partial = makePartial();
  partial.feed('{"done":{"x":[1]},"list":[{"a":1},{"b":"');
  const before = partial.value;
  assert.equal(partial.value, before, "nothing is new");
  partial.feed("c");
  const after = partial.value;
  assert.notEqual(after, before);
  assert.equal(after.done, before.done);
  assert.equal(after.list[0], before.list[0]);
  assert.notEqual(after.list[1], before.list[1]);
  assert.deepEqual([before.list[1], after.list[1]], [{ b: "" }, { b: "c" }]);
  partial.feed('"');
  partial.value;
  partial.feed(" ");
  assert.equal(partial.value, partial.value);
});

for (const [text, good] of [
  ["nonsense", undefined],
  ["]", undefined],
  ["\ufeff{}", undefined],
  ["{'a':1}", {}],
  ['{"a":1,}', { a: 1 }],
  ['{"a":1,,"b":2}', { a: 1 }],
  ['{"a":1 "b":2}', { a: 1 }],
  ['{"a" 1}', {}],
  ['{a:1}', {}],
  ['{,"a":1}', {}],
  ['{"a":[1,],"b":2}', { a: [1] }],
  ['{"a":[1},"b":2}', { a: [1] }],
  ['{"a":[1 2]}', { a: [1] }],
  ['{"a":tru,"b":2}', {}],
  ['{"a":NaN,"b":2}', {}],
  ['{"a":01,"b":2}', {}],
  ['{"a":1x,"b":2}', {}],
  ['{"a":1\u00a0,"b":2}', {}],
  ['{"a":"x\ny"}', { a: "x" }],
  ['{"a":"x\\qy"}', { a: "x" }],
  ['{"a":"x\\u12g4y"}', { a: "x" }],
  ['{"a":"x\\u1😀y"}', { a: "x" }],
  ['{"a":1}{"b":2}', { a: 1 }],
  ['{"a":1}}', { a: 1 }],
  ['[1]]', [1]],
  ['{"a":1} // done', { a: 1 }],
])
  test(`P3: of the garbage ${JSON.stringify(text)} what was good stays: ${JSON.stringify(good)}`, () => {
    assert.throws(() => JSON.parse(text));
    assert.deepEqual(shown(text), good);
    assert.deepEqual(shown(...text), good);
    assert.deepEqual(shown(text, '"b":2}', "}]", '{"c":3}'), good, "nothing that follows is believed");
  });

test("P3: garbage never throws, never takes back, and never makes up what JSON.parse would not say", () => {
  const random = dice(4);
  const JUNK = [..."{}[]\",:\\ut1-. \n\u0000e", "\ud83d", "null", "😀"];
  for (let round = 0; round < 1_000; round++) {
    let text = textOf(random, anyJson(random, 3));
    for (let wounds = 1 + random.below(3); wounds > 0; wounds--) {
      const at = random.below(text.length + 1);
      text = text.slice(0, at) + random.pick(JUNK) + text.slice(at + random.below(3));
    }
    const names = text.match(/"[^"]*"/g) ?? [];
    const isOrdinary = new Set(names).size === names.length; // no key comes twice
    const partial = makePartial();
    let before;
    for (const char of text.split("")) {
      partial.feed(char);
      assert.ok(!isOrdinary || extended(before, partial.value), text);
      before = partial.value;
    }
    partial.end();
    let whole;
    try {
      whole = JSON.parse(text);
    } catch {
      continue;
    }
    assert.deepEqual(partial.value, whole, text);
  }
});

test("P12: every character is looked at once, and given to JSON.parse at most once, however small the pieces", (t) => {
  let looked = 0;
  const counted = (text) => ({
    length: text.length,
    *[Symbol.iterator]() {
      for (const char of text) {
        looked += char.length;
        yield char;
      }
    },
  });
  const random = dice(5);
  const text = textOf(random, Array.from({ length: 500 }, () => anyJson(random, 3)));
  const parse = t.mock.method(JSON, "parse");
  const partial = makePartial();
  for (let at = 0; at < text.length; at += 3) {
    partial.feed(counted(text.slice(at, at + 3)));
    partial.value;
  }
  const parsed = parse.mock.calls.reduce((sum, { arguments: [given] }) => sum + given.length, 0);
  parse.mock.restore();
  assert.deepEqual(partial.value, JSON.parse(text));
  assert.equal(looked, text.length);
  assert.ok(parsed <= 2 * text.length, `${parsed} of ${text.length}`); // an escape is parsed in quotes of its own
});

for (const [what, text] of [
  ["array", `[${Array.from({ length: 8_000 }, (_, n) => n).join()}]`],
  ["object", JSON.stringify(Object.fromEntries(Array.from({ length: 4_000 }, (_, n) => [`k${n}`, n])))],
  ["last member of an array", `[${"0,".repeat(3_000)}"${"x".repeat(20_000)}"]`],
])
  test(`P12: copying stays linear too: a wide ${what} is shown in steps, and whole in the end`, () => {
    const partial = makePartial();
    let copied = 0;
    let before;
    for (let at = 0; at < text.length; at += 4) {
      partial.feed(text.slice(at, at + 4));
      const { value } = partial;
      if (value === before) continue;
      copied += Object.keys(value).length;
      assert.ok(typeof before !== "object" || copied % 97 || extended(before, value));
      before = value;
    }
    assert.deepEqual(partial.value, JSON.parse(text));
    assert.ok(copied <= 8 * text.length, `${copied} members for ${text.length} characters`);
  });

test("what is wide and was cut off is shown as far as it came", () => {
  const cutOff = `{"a":[${"1,".repeat(2_000)}`;
  const partial = makePartial();
  partial.feed(cutOff);
  assert.equal(partial.value.a.length, 2_000);
  partial.feed('"x');
  assert.equal(partial.value.a.length, 2_000, "two more characters are not worth a copy");
  partial.end();
  assert.deepEqual(partial.value.a.slice(-2), [1, "x"]);
});

test("P13: names that live on prototypes are ordinary own members, also while they grow", () => {
  const partial = makePartial();
  for (const char of '{"__proto__":{"polluted":"yes"},"constructor":"x","x":{"__proto__":"gr') {
    partial.feed(char);
    partial.value;
  }
  partial.feed("ows");
  const { value } = partial;
  assert.deepEqual(Object.keys(value), ["__proto__", "constructor", "x"]);
  assert.deepEqual(Object.getOwnPropertyDescriptor(value, "__proto__").value, { polluted: "yes" });
  assert.equal(Object.getPrototypeOf(value), Object.prototype);
  assert.deepEqual(Object.getOwnPropertyDescriptor(value.x, "__proto__").value, "grows");
  assert.equal({}.polluted, undefined);
});

test("of a key that comes twice the last value counts, from its beginning on", () => {
  assert.deepEqual(shown('{"a":{"x":1},"b":2,"a":'), { a: { x: 1 }, b: 2 });
  assert.deepEqual(shown('{"a":{"x":1},"b":2,"a":"'), { a: "", b: 2 });
  const text = '{"a":{"x":1},"b":2,"a":"y"}';
  assert.equal(JSON.stringify(shown(...text)), JSON.stringify(JSON.parse(text)));
});

test("P12: what is nested deeper than arguments may be is not followed, and nothing overflows", () => {
  const deep = (levels) => "[".repeat(levels) + "]".repeat(levels);
  assert.deepEqual(shown(deep(128)), JSON.parse(deep(128)));
  assert.deepEqual(shown(deep(129)), JSON.parse(deep(128)));
  const partial = makePartial();
  for (let n = 0; n < 100_000; n++) {
    partial.feed('{"a":');
    partial.value;
  }
  assert.equal(JSON.stringify(partial.value).length, '{"a":'.length * 127 + "{}".length + "}".length * 127);
});

test("a number that stands alone is complete when the text is", () => {
  const partial = makePartial();
  partial.feed("12");
  assert.equal(partial.value, undefined);
  partial.feed("3");
  partial.end();
  assert.equal(partial.value, 123);
  const open = makePartial();
  open.feed('{"a":12');
  open.end();
  assert.deepEqual(open.value, {}, "in an object that has not ended it may have been cut off");
});
