import assert from "node:assert/strict";
import test from "node:test";
import vm from "node:vm";
import { toJson, toText } from "../../bridge/handspan/client/core/values.js";
import { vectors } from "./vectors.js";

const circular = { name: "loop" };
circular.self = circular;
const list = [1];
list.push(list);
const twice = { n: 1 };
const div = { nodeType: 1, nodeName: "DIV", id: "cart", classList: ["wide", "open"], textContent: "x" };
const deep = (levels) => (levels ? { a: deep(levels - 1) } : 1);

/** What a handler returns, and what is sent. The README's table, row by row. */
const CONVERSIONS = [
  ["undefined is null", undefined, null],
  ["a function is null", () => 1, null],
  ["a symbol is null", Symbol("s"), null],
  ["members that JSON has no place for are dropped", { a: undefined, f() {}, s: Symbol(), b: 1 }, { b: 1 }],
  ["items that JSON has no place for are null", [undefined, () => 1, Symbol(), , 1], [null, null, null, null, 1]],
  ["NaN and Infinity are null", [NaN, Infinity, -Infinity], [null, null, null]],
  ["minus zero is zero", -0, 0],
  ["a date is its ISO text", { at: new Date(0) }, { at: "1970-01-01T00:00:00.000Z" }],
  ["a date that is none is null", new Date(NaN), null],
  ["a bigint is its digits", { n: 123456789012345678901234567890n }, { n: "123456789012345678901234567890" }],
  ["a map with string keys is an object", new Map([["a", 1], ["__proto__", 2]]), JSON.parse('{"a":1,"__proto__":2}')],
  ["another map is pairs", new Map([[1, "a"], [{ k: 1 }, new Map([["b", 2]])]]), [[1, "a"], [{ k: 1 }, { b: 2 }]]],
  ["a set is an array", new Set(["a", new Set([1])]), ["a", [1]]],
  ["a circle is marked", circular, { name: "loop", self: "[circular]" }],
  ["a circle through an array is marked", list, [1, "[circular]"]],
  ["what is there twice is written twice", [twice, twice], [{ n: 1 }, { n: 1 }]],
  ["a DOM node is described", { node: div }, { node: "<div#cart.wide.open>" }],
  ["a DOM node without id and class", { nodeType: 3, nodeName: "#text" }, "<#text>"],
  ["an error is its name and message", new RangeError("too far"), { name: "RangeError", message: "too far" }],
  ["a DOMException likewise", new DOMException("no", "AbortError"), { name: "AbortError", message: "no" }],
  ["a typed array is its numbers", new Float32Array([1.5, NaN]), [1.5, null]],
  ["a typed array of bigints is digits", new BigInt64Array([7n]), ["7"]],
  ["bytes are numbers", new Uint8Array([1, 2]).buffer, [1, 2]],
  ["toJSON is asked", { toJSON: () => ({ kept: undefined, at: new Date(0) }) }, { at: "1970-01-01T00:00:00.000Z" }],
  ["a toJSON that throws", { a: { toJSON() { throw new Error("no"); } }, b: 1 }, { a: "[error]", b: 1 }],
  ["a getter that throws", { get a() { throw new Error("no"); }, b: 1 }, { a: "[error]", b: 1 }],
  ["a proxy that throws", [new Proxy({}, { ownKeys() { throw new Error("no"); } })], ["[error]"]],
  ["a revoked proxy", (() => { const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return { proxy }; })(), { proxy: "[error]" }],
  ["half a surrogate pair is U+FFFD", ["a\ud800b", "\udc00", "😀", "\\ud800"], ["a\ufffdb", "\ufffd", "😀", "\\ud800"]],
  ["half a surrogate pair in a key", { "\ud800": 1 }, { "\ufffd": 1 }],
  ["a class instance is its own members", new (class { a = 1; get b() { return 2; } })(), { a: 1 }],
  ["an object without a prototype", Object.assign(Object.create(null), { a: 1 }), { a: 1 }],
  ["names of prototypes are names", JSON.parse('{"__proto__":{"x":1},"constructor":2}'), JSON.parse('{"__proto__":{"x":1},"constructor":2}')],
  ["a map of another realm", vm.runInNewContext('new Map([["a", new Set([1])]])'), { a: [1] }],
  ["an error of another realm", vm.runInNewContext('new Error("far")'), { name: "Error", message: "far" }],
];

for (const [name, value, sent] of CONVERSIONS)
  test(`P4, C132: ${name}`, () => assert.deepEqual(toJson(value), sent));

/** What JSON texts can say and JavaScript's values or writer cannot, by the vector's name. */
const NOT_OURS = {
  "minus zero": "JSON.stringify writes it as 0",
  "128 levels of arrays": "the frame around a value needs some; values are cut at 120",
  "128 levels of objects": "likewise",
};

for (const { name, ok, value, js } of vectors("parse")) {
  const skip = (!ok && "not JSON") || (js === false && "not a value of JavaScript's") || NOT_OURS[name];
  if (!skip || NOT_OURS[name])
    test(`P4: what JSON holds comes out equal: ${name}`, { skip }, () => assert.deepEqual(toJson(value), value));
}

test("P4: what is nested deeper than a frame may be is cut, never lost, and never hangs", () => {
  assert.deepEqual(toJson(deep(100)), deep(100));
  let text = JSON.stringify(toJson(deep(500)));
  assert.match(text, /"\[too deep\]"/);
  assert.equal(text.split("{").length - 1, 120);
  const circle = {};
  for (let node = circle, i = 0; i < 1e5; i++) node = node.next = {};
  text = JSON.stringify(toJson(circle));
  assert.ok(text.length < 2000);
});

test("P4, P12: what explodes when it is written out is given up, not walked to the end", () => {
  let value = 1;
  for (let level = 0; level < 100; level++) value = [value, value];
  assert.equal(toJson(value, 10_000), undefined);
  assert.equal(toJson(new Array(4e9)), undefined);
  assert.equal(toJson(new ArrayBuffer(1e9)), undefined);
});

test("P12, C135: the limit counts the UTF-8 bytes of the JSON text, to the byte", () => {
  assert.equal(toText("é".repeat(4), 10), '"éééé"');
  assert.equal(toText("é".repeat(4), 9), undefined);
});

test("P4: a toJSON that makes ever new objects ends", () => {
  const endless = () => ({ toJSON: () => ({ next: endless() }) });
  assert.match(JSON.stringify(toJson(endless())), /too deep/);
});
