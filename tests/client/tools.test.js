import assert from "node:assert/strict";
import test from "node:test";
import { openPage, page, refusal, rest } from "./fakes.js";

const T = { description: "a tool" };
const names = (tools) => tools.map(({ name }) => name);

test("C091: tools and context of the tick of connect are in the hello, before the run", async () => {
  const { bridge, server } = page();
  bridge.tool("set_theme", { ...T, parameters: { type: "object" }, followUp: false }, () => 1);
  bridge.context("cart", "what is in it", () => ["a"]);
  bridge.run("hi");
  await rest();
  const [hello, start] = server.frames;
  assert.deepEqual(hello.tools, [{ ...T, parameters: { type: "object" }, followUp: false, name: "set_theme" }]);
  assert.deepEqual(hello.context, [{ name: "cart", description: "what is in it", value: ["a"] }]);
  assert.equal(start.type, "run.start");
  assert.equal(server.frames.length, 2, "nothing is said twice");
});

test("registrations of one tick are one update, the difference", async () => {
  const { bridge, server } = page();
  const removeOld = bridge.tool("old", T, () => 1);
  bridge.tool("kept", T, () => 1);
  await rest();
  removeOld();
  bridge.tool("a", T, () => 1);
  bridge.tool({ name: "b", ...T }, () => 1);
  await rest();
  const [update, ...more] = server.sent("tools.update");
  assert.deepEqual([names(update.add), update.remove, more.length], [["a", "b"], ["old"], 0]);
});

test("C093, C098: a component that unmounts and mounts again sends nothing, and the newest handler runs", async () => {
  const { bridge, server } = page();
  const remove = bridge.tool("t", T, () => "old");
  await rest();
  remove();
  bridge.tool("t", T, () => "new");
  remove(); // late, of the one that was replaced: takes nothing away
  await rest();
  assert.deepEqual(server.sent("tools.update"), []);
  server.call();
  await rest();
  assert.equal(server.sent("tool.result")[0].result, "new");
});

test("C098: fifty reconnects with the same tools send no update, and each has one hello", async () => {
  const { bridge, server } = await openPage();
  for (let n = 0; n < 30; n++) bridge.tool(`t${n}`, T, () => n);
  await rest();
  for (let n = 0; n < 50; n++) {
    server.socket.drop();
    await new Promise((go) => setTimeout(go));
    await rest(4);
  }
  assert.equal(server.sent("hello").length, 51);
  assert.equal(server.sent("tools.update").length, 1);
});

test("P11, C033: a definition that changed is sent again under its name", async () => {
  const { bridge, server } = page();
  bridge.tool("t", T, () => 1);
  await rest();
  bridge.tool("t", { ...T, description: "another" }, () => 2);
  await rest();
  assert.deepEqual(server.sent("tools.update")[0].add, [{ description: "another", name: "t" }]);
});

test("P14: a refused tool is reported once by code and name, whatever the reconnects, and the others stand", async () => {
  const { bridge, server, problems } = page();
  const rejected = [{ name: "bad name", code: "bad_name", message: "name must be ..." }];
  server.answers.hello = (hello, socket) => server.welcome(hello, socket, { tools: { accepted: ["t"], rejected } });
  bridge.tool("bad name", T, () => 1);
  bridge.tool("t", T, () => 1);
  await rest();
  server.socket.drop();
  await new Promise((go) => setTimeout(go));
  await rest();
  assert.deepEqual(problems.map(({ code, name }) => [code, name]), [["bad_name", "bad name"]]);
  server.answers["tools.update"] = { accepted: [], rejected: [{ name: "u", code: "name_taken", message: "taken" }], revision: 2 };
  bridge.tool("u", T, () => 1);
  await rest();
  assert.deepEqual(problems.slice(1).map(({ code, name }) => [code, name]), [["name_taken", "u"]]);
});

test("an update that the server could not take is sent again with the next", async () => {
  const { bridge, server, problems } = await openPage();
  server.answers["tools.update"] = refusal("rate_limited");
  bridge.tool("a", T, () => 1);
  await rest();
  assert.equal(problems[0].code, "rate_limited");
  server.answers["tools.update"] = { accepted: [], rejected: [], revision: 2 };
  bridge.tool("b", T, () => 1);
  await rest();
  assert.deepEqual(names(server.sent("tools.update")[1].add), ["a", "b"]);
});

test("a Standard Schema that offers JSON Schema is taken for it, and one that has toJSONSchema", async () => {
  const { bridge, server } = page();
  const standard = (schema) => ({
    "~standard": { version: 1, vendor: "x", jsonSchema: { input: ({ target }) => ({ ...schema, $schema: target }) } },
  });
  bridge.tool("a", { ...T, parameters: standard({ type: "object" }) }, () => 1);
  bridge.tool("b", { ...T, parameters: { toJSONSchema: () => ({ type: "object", title: "b" }) } }, () => 1);
  await rest();
  const [a, b] = server.frames[0].tools;
  assert.deepEqual(a.parameters, { type: "object", $schema: "draft-2020-12" });
  assert.deepEqual(b.parameters, { type: "object", title: "b" });
});

test("P14: a tool that cannot be written down is told to the program at once and harms no other", async () => {
  const { bridge, server } = page();
  const broken = { "~standard": { jsonSchema: { input() { throw new Error("no JSON Schema of this"); } } } };
  assert.throws(() => bridge.tool("t", { ...T, parameters: broken }, () => 1), /no JSON Schema/);
  bridge.tool("good", T, () => 1);
  await rest();
  assert.deepEqual(names(server.frames[0].tools), ["good"]);
});

test("P13: a tool may have a name that lives on prototypes", async () => {
  const { bridge, server } = page();
  bridge.tool("constructor", T, () => "mine");
  await rest();
  server.call({ name: "constructor" });
  server.call({ name: "toString", callId: "c2" });
  await rest();
  const [mine, none] = server.sent("tool.result");
  assert.equal(mine.result ?? none.result, "mine");
  assert.equal((mine.error ?? none.error).code, "unavailable");
});

test("context is sent when it changed: before a run and with a result, as the whole", async () => {
  const { bridge, server } = page();
  let cart = [];
  const remove = bridge.context("cart", "the cart", () => cart);
  bridge.context("fixed", "a value", { at: new Date(0) });
  bridge.tool("t", T, () => void (cart = ["x"]));
  await rest();
  bridge.run("hi");
  await rest();
  assert.deepEqual(server.sent("context.update"), [], "nothing changed since the hello");
  server.call();
  await rest();
  assert.deepEqual(server.sent("tool.result")[0].context, [
    { name: "cart", description: "the cart", value: ["x"] },
    { name: "fixed", description: "a value", value: { at: "1970-01-01T00:00:00.000Z" } },
  ]);
  server.call({ callId: "c2" });
  await rest();
  assert.equal(server.sent("tool.result")[1].context, undefined);
  remove();
  bridge.runTool("t");
  await rest();
  assert.deepEqual(names(server.sent("context.update")[0].set), ["fixed"]);
});

test("P14: a context that throws is marked, one that is too large is reported, and the run goes on", async () => {
  const { bridge, server, problems } = page();
  server.limits = { contextBytes: 200 };
  bridge.context("bad", "throws", () => { throw new Error("no cart"); });
  bridge.context("good", "fine", 1);
  await rest();
  assert.deepEqual(server.frames[0].context.map(({ value }) => value), ["[error]", 1]);
  bridge.context("big", "too large", "x".repeat(200));
  bridge.run("hi");
  await rest();
  assert.equal(server.sent("run.start").length, 1);
  assert.deepEqual(server.sent("context.update"), []);
  assert.deepEqual(problems.map(({ code }) => code), ["too_large"]);
});
