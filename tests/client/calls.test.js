import assert from "node:assert/strict";
import test from "node:test";
import { content } from "../../bridge/handspan/client/handspan.js";
import { FakeServer, openPage, page, refusal, rest } from "./fakes.js";

const T = { description: "a tool" };
const READ = { ...T, readOnly: true };

/** A promise with its handles outside. */
function later() {
  let resolve;
  const promise = new Promise((go) => (resolve = go));
  return { promise, resolve };
}

/** A page with these tools, open. */
async function pageWith(tools, options, server) {
  const opened = page(options, server);
  for (const [name, [definition, handler]] of Object.entries(tools)) opened.bridge.tool(name, definition, handler);
  await rest();
  return opened;
}

async function back(server) {
  server.socket.drop();
  await new Promise((go) => setTimeout(go));
  await rest();
}

test("P3: a handler gets the arguments and all there is to know about the call", async () => {
  let got;
  const { server } = await pageWith({ t: [T, (...all) => void (got = all)] });
  server.call({ args: { x: 1 }, rawArgs: '{"x": 1.0}', depth: 2, attempt: 3 });
  await rest();
  const [args, { signal, progress, ...rests }] = got;
  assert.deepEqual(args, { x: 1 });
  assert.ok(signal instanceof AbortSignal && !signal.aborted && typeof progress === "function");
  for (const [key, value] of Object.entries({ callId: "c1", attempt: 3, threadId: "t1", rawArgs: '{"x": 1.0}', depth: 2, toolName: "t" }))
    assert.equal(rests[key], value, key);
});

test("P13, C117: the exact name first; * gets what nobody has, with its name", async () => {
  const star = [];
  const { server } = await pageWith({ "*": [T, (args, { toolName }) => void star.push(args, toolName)], a: [T, () => "a"] });
  server.call({ name: "a" });
  server.call({ callId: "c2", name: "*", toolName: "zzz", args: { toolName: "zzz", args: { k: 1 } } });
  await rest();
  assert.equal(server.sent("tool.result").find(({ callId }) => callId === "c1").result, "a");
  assert.deepEqual(star, [{ toolName: "zzz", args: { k: 1 } }, "zzz"]);
});

test("P1: a call of a tool that is gone, or changed since, is answered unavailable", async () => {
  const { bridge, server } = await pageWith({ t: [T, () => 1] });
  server.call({ name: "gone" });
  server.answers["tools.update"] = { accepted: ["t"], rejected: [], revision: 5 };
  bridge.tool("t", { ...T, description: "new" }, () => 2);
  await rest();
  server.call({ callId: "c2", revision: 4 });
  server.call({ callId: "c3", revision: 5 });
  await rest();
  const results = Object.fromEntries(server.sent("tool.result").map((frame) => [frame.callId, frame]));
  assert.equal(results.c1.error.code, "unavailable");
  assert.equal(results.c2.error.code, "unavailable");
  assert.equal(results.c3.result, 2);
});

// ---- leave to start ---------------------------------------------------------------------------

test("P2: a handler that must not run twice waits for leave, and starts on go alone", async () => {
  for (const [answer, runs] of [
    [{ status: "go" }, 1],
    [{ status: "duplicate" }, 0],
    [{ status: "stale" }, 0],
    [{ status: "late" }, 0],
    [{ status: "aborted" }, 0],
    [{}, 0],
    [refusal("unknown_call"), 0],
    [refusal("not_owner"), 0],
  ]) {
    let count = 0;
    const server = new FakeServer();
    server.answers["tool.started"] = answer;
    await pageWith({ t: [T, () => void count++] }, {}, server);
    server.call();
    await rest();
    assert.equal(count, runs, JSON.stringify(answer));
    assert.equal(server.sent("tool.result").length, runs);
  }
});

test("P2: readOnly and idempotent handlers start at once, without asking", async () => {
  const { server } = await pageWith({ r: [READ, () => "r"], i: [{ ...T, idempotent: true }, () => "i"] });
  server.call({ name: "r" });
  server.call({ name: "i", callId: "c2" });
  await rest();
  assert.deepEqual(server.sent("tool.started"), []);
  assert.deepEqual(server.sent("tool.result").map(({ result }) => result).sort(), ["i", "r"]);
});

// ---- once -------------------------------------------------------------------------------------

test("P2, C088: a call that comes again is not run again; one that is done is answered again", async () => {
  let count = 0;
  const work = later();
  const { server } = await pageWith({ t: [T, () => (count++, work.promise)] });
  server.answers["tool.result"] = () => undefined; // the answer is never acknowledged
  server.call();
  server.call();
  await rest();
  work.resolve("done");
  await rest();
  server.call();
  await rest();
  assert.equal(count, 1);
  assert.deepEqual(server.sent("tool.result").map(({ result }) => result), ["done", "done"]);
});

test("P2: a newer attempt takes the place of an older one, an older one is nothing", async () => {
  const seen = [];
  const { server } = await pageWith({
    i: [{ ...T, idempotent: true, parallel: true }, (_, { attempt, signal }) => {
      seen.push(attempt);
      if (attempt === 2) return new Promise((go) => signal.addEventListener("abort", () => go("old")));
      return "new";
    }],
  });
  server.call({ name: "i", attempt: 2 });
  server.call({ name: "i", attempt: 1 });
  await rest();
  server.call({ name: "i", attempt: 3 });
  await rest();
  assert.deepEqual(seen, [2, 3]);
  assert.deepEqual(server.sent("tool.result").map(({ attempt, result }) => [attempt, result]), [[3, "new"]]);
});

test("P2, P9: after a reconnect the journal tells what is known, and what is done is answered again", async () => {
  const work = later();
  let count = 0;
  const { server } = await pageWith({ t: [T, () => (count++, work.promise)], u: [T, () => 1] });
  server.call();
  server.call({ callId: "c2", name: "u" }); // waits for its turn
  await rest();
  await back(server);
  assert.deepEqual(server.sent("hello")[1].calls, [
    { callId: "c1", attempt: 1, state: "started" },
    { callId: "c2", attempt: 1, state: "received" },
  ]);
  server.accepting = false;
  server.socket.drop();
  work.resolve("kept");
  await rest();
  assert.deepEqual(server.sent("tool.result"), [], "there is no socket");
  server.accepting = true;
  await new Promise((go) => setTimeout(go));
  server.socket.open();
  await rest();
  const hello = server.sent("hello")[2];
  assert.equal(hello.calls.find(({ callId }) => callId === "c1").state, "done");
  assert.equal(server.sent("tool.result").find(({ callId }) => callId === "c1").result, "kept");
  assert.equal(count, 1);
  await back(server);
  assert.deepEqual(server.sent("hello")[3].calls, [], "what was taken is forgotten (C153)");
});

test("P2: a leave that was on its way when the socket went is asked for again under its id", async () => {
  let count = 0;
  const { server } = await pageWith({ t: [T, () => void count++] });
  const go = server.answers["tool.started"];
  server.answers["tool.started"] = () => undefined;
  server.call();
  await rest();
  server.answers["tool.started"] = go;
  await back(server);
  const [first, second] = server.sent("tool.started");
  assert.deepEqual(second, first);
  assert.equal(count, 1);
});

test("P9: in a new session nothing of the old one's calls is ours: handlers are told, nothing is sent", async () => {
  let reason;
  const { server } = await pageWith({
    t: [T, (_, { signal }) => new Promise((go) => signal.addEventListener("abort", () => go((reason = signal.reason.message))))],
  });
  server.call();
  await rest();
  server.answers.hello = (hello, socket) => server.welcome(hello, socket, { resumed: false, reason: "unknown_session" });
  await back(server);
  assert.equal(reason, "unknown");
  await back(server);
  assert.deepEqual(server.sent("hello")[2].calls, []);
  assert.deepEqual(server.sent("tool.result"), []);
});

// ---- order ------------------------------------------------------------------------------------

test("handlers of one thread run in the order of their calls; readOnly and parallel ones do not wait", async () => {
  const log = [];
  const works = {};
  const slow = (_, { callId }) => (log.push(callId), (works[callId] = later()).promise);
  const { server } = await pageWith({ t: [T, slow], r: [READ, slow], p: [{ ...T, parallel: true }, slow] });
  for (const [callId, name] of [["c1", "t"], ["c2", "t"], ["c3", "r"], ["c4", "p"], ["c5", "t"]]) server.call({ callId, name });
  await rest();
  assert.deepEqual(log.toSorted(), ["c1", "c3", "c4"]);
  works.c1.resolve();
  await rest();
  assert.deepEqual(log.slice(3), ["c2"]);
  works.c2.resolve();
  await rest();
  assert.deepEqual(log.slice(4), ["c5"]);
});

test("P8: a handler that waits for a human in one thread holds up no other thread", async () => {
  const { server } = await pageWith({ ask: [T, () => new Promise(() => {})], t: [T, () => "here"] });
  server.call({ name: "ask" });
  server.call({ callId: "c2", threadId: "t2" });
  server.call({ callId: "c3" });
  await rest();
  assert.deepEqual(server.sent("tool.result").map(({ callId, result }) => [callId, result]), [["c2", "here"]]);
});

test("P14: a handler that throws does not stop those behind it", async () => {
  const { server } = await pageWith({ bad: [T, () => { throw new Error("no"); }], t: [T, () => "yes"] });
  server.call({ name: "bad" });
  server.call({ callId: "c2" });
  await rest();
  assert.equal(server.sent("tool.result")[1].result, "yes");
});

// ---- cancel -----------------------------------------------------------------------------------

test("P5, C063: a cancel fires the handler's signal with its reason, and a late result is not sent", async () => {
  const work = later();
  let signal;
  const { server } = await pageWith({ t: [T, (_, call) => ((signal = call.signal), work.promise)] });
  server.call();
  await rest();
  server.push({ type: "tool.cancel", callId: "c1", attempt: 1, reason: "timeout" });
  await rest();
  assert.equal(signal.aborted, true);
  assert.equal(signal.reason.name, "AbortError");
  assert.equal(signal.reason.message, "timeout");
  work.resolve("late");
  await rest();
  assert.deepEqual(server.sent("tool.result"), []);
});

test("P5, C067: a handler that never ends and ignores its signal holds up nobody once it is cancelled", async () => {
  const { server } = await pageWith({ stuck: [T, () => new Promise(() => {})], t: [T, () => "next"] });
  server.call({ name: "stuck" });
  server.call({ callId: "c2" });
  await rest();
  server.push({ type: "tool.cancel", callId: "c1", attempt: 1, reason: "aborted" });
  await rest();
  assert.deepEqual(server.sent("tool.result").map(({ callId }) => callId), ["c2"]);
});

test("P5: a call that is cancelled before its turn, or before its leave, never starts", async () => {
  let count = 0;
  const work = later();
  const { server } = await pageWith({ t: [T, () => (count++, work.promise)] });
  server.call();
  server.call({ callId: "c2" });
  await rest();
  server.push({ type: "tool.cancel", callId: "c2", attempt: 1, reason: "aborted" });
  work.resolve();
  await rest();
  assert.equal(count, 1);
  server.answers["tool.started"] = () => undefined;
  server.call({ callId: "c3" });
  await rest();
  server.push({ type: "tool.cancel", callId: "c3", attempt: 1, reason: "aborted" });
  await rest();
  server.push({ type: "reply", id: server.sent("tool.started").at(-1).id, result: { status: "go" } });
  await rest();
  assert.equal(count, 1);
});

test("P7: a cancel of another attempt, or of a call that is not here, changes nothing", async () => {
  const work = later();
  const { server, problems } = await pageWith({ t: [T, () => work.promise] });
  server.call({ attempt: 2 });
  await rest();
  server.push({ type: "tool.cancel", callId: "c1", attempt: 1, reason: "superseded" });
  server.push({ type: "tool.cancel", callId: "zz", attempt: 1, reason: "unknown" });
  work.resolve("mine");
  await rest();
  assert.equal(server.sent("tool.result")[0].result, "mine");
  assert.deepEqual(problems, []);
});

// ---- results ----------------------------------------------------------------------------------

test("P1, P4, C051: presence decides: null, false, 0 and an empty text are results; undefined is null", async () => {
  for (const [value, sent] of [[undefined, null], [null, null], [false, false], [0, 0], ["", ""], [[1, 2], [1, 2]]]) {
    const { server } = await pageWith({ t: [READ, () => value] });
    server.call();
    await rest();
    const { result, error, content } = server.sent("tool.result")[0];
    assert.deepEqual([result, error, content], [sent, undefined, undefined]);
  }
});

test("C134: parts are content only when the handler says so; an array that looks like parts stays data", async () => {
  const parts = [{ type: "text", text: "see" }, { type: "image", source: { type: "data", value: "AAAA", mimeType: "image/png" } }];
  const { server } = await pageWith({ shot: [READ, () => content(parts)], data: [READ, () => parts] });
  server.call({ name: "shot" });
  server.call({ callId: "c2", name: "data" });
  await rest();
  const [shot, data] = server.sent("tool.result").toSorted((a, b) => a.callId.localeCompare(b.callId));
  assert.deepEqual([shot.content, "result" in shot], [parts, false]);
  assert.deepEqual([data.result, "content" in data], [parts, false]);
});

/** What is thrown, and the error that is sent. */
const THROWN = [
  ["an error", new Error("no stock"), { message: "no stock" }],
  ["an error with a good code", Object.assign(new Error("no"), { code: "sold_out" }), { message: "no", code: "sold_out" }],
  ["an error with a code for machines only", Object.assign(new Error("no"), { code: "E-42!" }), { message: "no" }],
  ["a DOMException, whose code is a number", new DOMException("gone", "NotFoundError"), { message: "gone" }],
  ["an error without a message", new RangeError(""), { message: "RangeError" }],
  ["an error with data", Object.assign(new Error("no"), { data: { left: 0n } }), { message: "no", data: { left: "0" } }],
  ["a text", "just no", { message: "just no" }],
  ["an empty text", "", { message: "the tool failed" }],
  ["nothing", undefined, { message: "the tool failed" }],
  ["null", null, { message: "the tool failed" }],
  ["a number", 7, { message: "7" }],
  ["an object", {}, { message: "[object Object]" }],
  ["a symbol", Symbol("s"), { message: "Symbol(s)" }],
  ["what throws when it is read", { get message() { throw 1; } }, { message: "[error]" }],
  ["half a surrogate pair", new Error("a\ud800"), { message: "a\ufffd" }],
  ["a long text", new Error("x".repeat(5000)), { message: "x".repeat(2000) }],
];

for (const [name, thrown, error] of THROWN)
  test(`P1: a handler that throws ${name} gives an error result with words in it`, async () => {
    const { server } = await pageWith({ t: [READ, async () => { throw thrown; }] });
    server.call();
    await rest();
    assert.deepEqual(server.sent("tool.result")[0].error, error);
    assert.equal("result" in server.sent("tool.result")[0], false);
  });

test("P4, C132: whatever a handler returns, one result frame comes, and the next call works", async () => {
  const circle = {};
  circle.self = circle;
  const revoked = Proxy.revocable({}, {});
  revoked.revoke();
  const odd = [undefined, () => 1, Symbol("s"), 1n, NaN, circle, new Map([[{}, 1]]), revoked.proxy, new Array(4e9), { toJSON() { throw 1; } }];
  const { server, problems } = await pageWith({ t: [READ, ({ n }) => odd[n]] });
  for (let n = 0; n < odd.length; n++) {
    server.call({ callId: `c${n}`, args: { n } });
    await rest();
    assert.equal(server.sent("tool.result").filter(({ callId }) => callId === `c${n}`).length, 1, `number ${n}`);
  }
  assert.deepEqual(problems, []);
});

test("P12, C135: a result of the limit's size goes, one byte more is result_too_large, and the page lives", async () => {
  const server = new FakeServer();
  server.limits = { resultBytes: 1_000 };
  await pageWith({ t: [READ, ({ n }) => "é".repeat(n)] }, {}, server);
  for (const n of [499, 500, 10_000, 1]) {
    server.call({ callId: `c${n}`, args: { n } });
    await rest();
  }
  const outcomes = server.sent("tool.result").map(({ callId, error }) => [callId, error?.code]);
  assert.deepEqual(outcomes, [["c499", undefined], ["c500", "result_too_large"], ["c10000", "result_too_large"], ["c1", undefined]]);
});

test("P1: a result that the server refuses is replaced by an error that it can take, once", async () => {
  const server = new FakeServer();
  server.answers["tool.result"] = ({ error }) => (error ? { status: "applied" } : refusal("invalid_frame", "no such part"));
  await pageWith({ t: [READ, () => content([{ type: "hologram" }])] }, {}, server);
  server.call();
  await rest();
  const [first, second, ...more] = server.sent("tool.result");
  assert.ok(first.content);
  assert.match(second.error.message, /no such part/);
  assert.deepEqual(more, []);
});

test("P1: a result that came too fast for the server is sent again a little later", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const server = new FakeServer();
  const answers = [refusal("rate_limited"), { status: "applied" }];
  server.answers["tool.result"] = () => answers.shift();
  await pageWith({ t: [READ, () => "kept"] }, {}, server);
  server.call();
  await rest();
  t.mock.timers.tick(1_000);
  await rest();
  assert.deepEqual(server.sent("tool.result").map(({ result }) => result), ["kept", "kept"]);
});

test("P7: a result for a call that is not this session's is forgotten", async () => {
  const server = new FakeServer();
  server.answers["tool.result"] = refusal("not_owner");
  await pageWith({ t: [READ, () => 1] }, {}, server);
  server.call();
  await rest();
  await back(server);
  assert.equal(server.sent("tool.result").filter(({ result }) => result === 1).length, 1);
  assert.deepEqual(server.sent("hello")[1].calls, []);
});

test("C097: what a handler changed about the page is told before its result: tools first, context with it", async () => {
  const { bridge, server } = page();
  let theme = "light";
  bridge.context("theme", "the theme", () => theme);
  const removeU = bridge.tool("u", T, () => 1);
  bridge.tool("t", T, () => {
    removeU();
    // As a framework does: it renders in one task, and its effects run in another.
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      theme = "dark";
      const effects = new MessageChannel();
      effects.port1.onmessage = () => {
        bridge.tool("v", T, () => 1);
        port1.close();
        effects.port1.close();
      };
      effects.port2.postMessage(0);
    };
    port2.postMessage(0);
  });
  await rest();
  server.call();
  await rest(30);
  const told = server.frames.filter(({ type }) => type === "tools.update" || type === "tool.result");
  const last = told.pop();
  assert.equal(last.type, "tool.result");
  assert.deepEqual(last.context, [{ name: "theme", description: "the theme", value: "dark" }]);
  assert.deepEqual(told.flatMap(({ remove }) => remove), ["u"]);
  assert.deepEqual(told.flatMap(({ add }) => add.map(({ name }) => name)), ["v"]);
});

test("settle: false lets nothing pass; a function is waited for; one that throws makes an error result", async () => {
  const log = [];
  const { server } = await pageWith({ t: [READ, () => void log.push("handled")] }, {
    settle: async () => { await rest(1); log.push("settled"); },
  });
  server.call();
  await rest();
  assert.deepEqual(log, ["handled", "settled"]);
  assert.equal(server.sent("tool.result").length, 1);
  const quick = await pageWith({ t: [READ, () => "now"] }, { settle: false });
  quick.server.call();
  await rest();
  assert.equal(quick.server.sent("tool.result")[0].result, "now");
  const bad = await pageWith({ t: [READ, () => "now"] }, { settle: () => { throw new Error("unsettled"); } });
  bad.server.call();
  await rest();
  assert.equal(bad.server.sent("tool.result")[0].error.message, "unsettled");
});

// ---- progress ---------------------------------------------------------------------------------

test("C072: progress goes at once, then at most every 100 ms, and the last wins", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let say;
  const work = later();
  const { server } = await pageWith({ t: [READ, (_, { progress }) => ((say = progress), work.promise)] });
  server.call();
  await rest();
  for (let n = 0; n <= 10; n++) say(n, 10, `step ${n}`);
  await rest();
  const told = () => server.sent("tool.progress").map(({ progress, total, message }) => [progress, total, message]);
  assert.deepEqual(told(), [[0, 10, "step 0"]]);
  t.mock.timers.tick(100);
  await rest();
  assert.deepEqual(told(), [[0, 10, "step 0"], [10, 10, "step 10"]]);
  t.mock.timers.tick(100);
  say({ message: "nearly", progress: NaN });
  await rest();
  const { id, progress, message } = server.sent("tool.progress").at(-1);
  assert.deepEqual([id, progress, message], [undefined, null, "nearly"]);
  say(5);
  work.resolve();
  await rest();
  t.mock.timers.tick(1000);
  await rest();
  assert.equal(server.sent("tool.progress").length, 3, "after the end nothing is told");
});
