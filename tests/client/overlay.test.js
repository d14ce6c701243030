import assert from "node:assert/strict";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { overlay } from "../../bridge/handspan/client/core/overlay.js";
import { apply, EMPTY, fromSnapshot } from "../../bridge/handspan/client/core/reducer.js";
import { FakeServer, openPage, outcome, refusal, rest } from "./fakes.js";

const user = (id, content = "hi") => ({ id, role: "user", content });
const answer = (runId) => ({ id: `pending:${runId}`, role: "assistant", content: "", pending: true });
const pending = (message) => ({ ...message, pending: true });
const started = (runId, ...messages) => ({ type: "RUN_STARTED", threadId: "t1", runId, input: { threadId: "t1", runId, messages } });
const finished = (runId) => ({ type: "RUN_FINISHED", threadId: "t1", runId, outcome: { type: "success" }, result: { reason: "completed", depth: 0 } });
const text = (messageId, ...deltas) => [
  { type: "TEXT_MESSAGE_START", messageId },
  ...deltas.map((delta) => ({ type: "TEXT_MESSAGE_CONTENT", messageId, delta })),
];
const called = (toolCallId, ...deltas) => [
  { type: "TOOL_CALL_START", toolCallId, toolCallName: "t" },
  ...deltas.map((delta) => ({ type: "TOOL_CALL_ARGS", toolCallId, delta })),
];

/** A thread under an overlay, without a page: its runs are asked, its events folded, its view looked at. */
class Thread {
  state = EMPTY;
  runs = new Map();
  over = overlay(this.runs);

  ask(id, message = user(`u-${id}`)) {
    this.runs.set(id, { run: { id }, message });
  }

  events(...events) {
    for (const event of events.flat()) {
      this.state = apply(this.state, event);
      this.over.see(this.state, event);
      if (/^RUN_(FINISHED|ERROR)$/.test(event.type)) this.runs.delete(this.state.lastRun.runId);
    }
  }

  get view() {
    return { ...this.state, ...this.over.over(this.state) };
  }

  get ids() {
    return this.view.messages.map(({ id, pending }) => (pending ? `${id}?` : id));
  }

  get args() {
    return Object.fromEntries(this.view.calls.map(({ callId, args }) => [callId, args]));
  }
}

// ---- runs that were asked for ------------------------------------------------------------------

test("a run that was asked for is shown at once: the user's message and an empty answer, both pending", () => {
  const thread = new Thread();
  thread.events(started("r0", user("u0")), text("m0", "hello"), { type: "TEXT_MESSAGE_END", messageId: "m0" }, finished("r0"));
  thread.ask("r1");
  assert.deepEqual(thread.view.messages.slice(2), [pending(user("u-r1")), answer("r1")]);
  assert.deepEqual(thread.ids, ["u0", "m0", "u-r1?", "pending:r1?"]);
  assert.deepEqual(thread.state.messages.length, 2, "the state knows nothing of it");
});

test("RUN_STARTED brings the real message in place of the pending one, the first word the real answer", () => {
  for (const first of [text("m1"), called("m1"), [{ type: "REASONING_MESSAGE_START", messageId: "m1" }]]) {
    const thread = new Thread();
    thread.ask("r1");
    assert.deepEqual(thread.ids, ["u-r1?", "pending:r1?"]);
    thread.events(started("r1", user("u-r1")), { type: "STEP_STARTED", stepName: "step-0" });
    assert.deepEqual(thread.view.messages, [user("u-r1"), answer("r1")]);
    thread.events(first);
    assert.deepEqual(thread.ids, ["u-r1", "m1"]);
    assert.equal(thread.view.messages, thread.state.messages, "nothing lies over the state any more");
  }
});

test("a text that ends without a word was none: the empty answer stands there again, until the run is over", () => {
  const thread = new Thread();
  thread.ask("r1");
  thread.events(started("r1", user("u-r1")), text("m1"));
  assert.deepEqual(thread.ids, ["u-r1", "m1"]);
  thread.events({ type: "TEXT_MESSAGE_END", messageId: "m1" });
  assert.deepEqual(thread.ids, ["u-r1", "pending:r1?"]);
  thread.events(finished("r1"));
  assert.deepEqual(thread.ids, ["u-r1"]);
});

test("a run that is denied, refused or over shows nothing pending any more", () => {
  const denied = new Thread();
  denied.ask("r1");
  denied.events(started("r1", user("u-r1")), { type: "RUN_ERROR", message: "no", code: "denied" });
  assert.deepEqual(denied.ids, ["u-r1"]);
  const refused = new Thread();
  refused.ask("r1");
  assert.equal(refused.ids.length, 2);
  refused.runs.delete("r1");
  assert.deepEqual(refused.ids, []);
});

test("what waits stands behind what goes on, in the order in which it was asked; what runs comes first", () => {
  const thread = new Thread();
  for (const id of ["r1", "r2", "r3"]) thread.ask(id);
  thread.events(started("r1", user("u-r1")));
  assert.deepEqual(thread.ids, ["u-r1", "pending:r1?", "u-r2?", "pending:r2?", "u-r3?", "pending:r3?"]);
  thread.events(text("m1", "a"));
  assert.deepEqual(thread.ids, ["u-r1", "m1", "u-r2?", "pending:r2?", "u-r3?", "pending:r3?"]);
  thread.events({ type: "TEXT_MESSAGE_END", messageId: "m1" }, finished("r1"), started("r3", user("u-r3"))); // "replace" goes to the head
  assert.deepEqual(thread.ids, ["u-r1", "m1", "u-r3", "pending:r3?", "u-r2?", "pending:r2?"]);
});

test("another tab's run brings its own messages, and no answer of ours", () => {
  const thread = new Thread();
  thread.events(started("theirs", user("u9")));
  assert.deepEqual(thread.ids, ["u9"]);
  thread.ask("r1");
  thread.events(text("m9", "a"));
  assert.deepEqual(thread.ids, ["u9", "m9", "u-r1?", "pending:r1?"]);
  thread.events({ type: "TEXT_MESSAGE_END", messageId: "m9" }, finished("theirs"), started("r1", user("u-r1")));
  assert.deepEqual(thread.ids, ["u9", "m9", "u-r1", "pending:r1?"]);
});

test("an answer that is made anew: what is cut off goes, the empty answer stays last", () => {
  const thread = new Thread();
  thread.events(started("r0", user("u0")), text("m0", "hello"), { type: "TEXT_MESSAGE_END", messageId: "m0" }, finished("r0"));
  thread.ask("r1", null);
  assert.deepEqual(thread.ids, ["u0", "m0", "pending:r1?"]);
  thread.events(started("r1"));
  assert.deepEqual(thread.ids, ["u0", "m0", "pending:r1?"]);
  thread.events({ type: "MESSAGES_SNAPSHOT", messages: [user("u0")] });
  assert.deepEqual(thread.ids, ["u0", "pending:r1?"]);
  thread.events(text("m1", "a"));
  assert.deepEqual(thread.ids, ["u0", "m1"]);
});

test("a run without a message on a thread without messages has its empty answer too", () => {
  const thread = new Thread();
  thread.ask("r1", null);
  assert.deepEqual(thread.ids, ["pending:r1?"]);
  thread.events(started("r1"));
  assert.deepEqual(thread.ids, ["pending:r1?"]);
});

const known = (fields) =>
  fromSnapshot({ type: "snapshot", threadId: "t1", epoch: "e", offset: 9, messages: [], state: {}, run: null, lastRun: null, calls: [], suggestions: [], ...fields, open: { messages: [], reasoning: [], calls: [], steps: [], subagents: [], ...fields.open } });

test("P9: a snapshot in between: before, during and after the run, nothing is doubled and nothing stays", () => {
  const run = { runId: "r1", depth: 0, status: "running" };
  for (const [before, fields, ids] of [
    [[], {}, ["u-r1?", "pending:r1?"]],
    [[], { messages: [user("u-r1")], run }, ["u-r1", "pending:r1?"]],
    [[], { messages: [user("u-r1"), { id: "m1", role: "assistant", content: "a" }], run }, ["u-r1", "m1"]],
    [[started("r1", user("u-r1"))], { messages: [user("u-r1")], run }, ["u-r1", "pending:r1?"]],
    [[started("r1", user("u-r1"))], { messages: [user("u-r1"), { id: "m1", role: "assistant", content: "a" }], run }, ["u-r1", "m1"]],
    [[], { messages: [user("u-r1"), { id: "m1", role: "assistant", content: "a" }], lastRun: { runId: "r1" } }, ["u-r1", "m1"]],
    [[], { messages: [user("u-r1"), user("u9")], run: { ...run, runId: "theirs" }, lastRun: { runId: "r8" } }, ["u-r1", "u9"]],
    [[], { lastRun: { runId: "r1" } }, []],
    [[], { messages: [user("u-r1"), { ...user("u-sub"), subagentRunId: "s1" }], run }, ["u-r1", "u-sub"]],
  ]) {
    const thread = new Thread();
    thread.ask("r1");
    thread.events(before);
    thread.view;
    thread.state = known(fields);
    assert.deepEqual(thread.ids, ids, JSON.stringify(fields));
  }
});

test("an overlay that comes late, in the middle of a run, shows what it would have shown", () => {
  const thread = new Thread();
  thread.ask("r1");
  thread.events(started("r1", user("u-r1")));
  thread.over = overlay(thread.runs);
  assert.deepEqual(thread.ids, ["u-r1", "pending:r1?"]);
  thread.events(called("c1", '{"a":"x'));
  thread.over = overlay(thread.runs);
  assert.deepEqual([thread.ids, thread.args], [["u-r1", "c1"], { c1: { a: "x" } }]);
  thread.events({ type: "TOOL_CALL_ARGS", toolCallId: "c1", delta: "y" });
  assert.deepEqual(thread.args, { c1: { a: "xy" } });
});

test("from the asking to the end there is never a view without the message, nor one with a message twice", () => {
  const thread = new Thread();
  thread.ask("r1");
  const ends = (messageId) => ({ type: "TEXT_MESSAGE_END", messageId });
  const events = [
    started("r1", user("u-r1")),
    { type: "MESSAGES_SNAPSHOT", messages: [user("u-r1")] },
    { type: "STEP_STARTED", stepName: "step-0" },
    ...text("m0"), ends("m0"),
    ...text("m1", "a", "b"), ends("m1"),
    ...called("c1", "{", "}"), { type: "TOOL_CALL_END", toolCallId: "c1" },
    { type: "TOOL_CALL_RESULT", messageId: "x1", toolCallId: "c1", content: "1" },
    ...text("m2", "c"), ends("m2"),
    finished("r1"),
  ];
  for (const event of [{ type: "RAW" }, ...events]) {
    thread.events(event);
    const { ids } = thread;
    assert.deepEqual([...new Set(ids)], ids);
    assert.match(ids[0], /^u-r1/);
    if (thread.runs.size) assert.ok(ids.length > 1, `an answer, empty or not, after ${event.type}`);
  }
});

test("suggestions go as soon as something is asked, and are back when that was refused", () => {
  const thread = new Thread();
  thread.events(started("r0"), finished("r0"), { type: "CUSTOM", name: "handspan.suggestions", value: { runId: "r0", items: ["more"] } });
  assert.deepEqual(thread.view.suggestions, ["more"]);
  thread.ask("r1");
  assert.deepEqual(thread.view.suggestions, []);
  assert.equal(thread.view.suggestions, thread.view.suggestions);
  thread.runs.clear();
  assert.deepEqual(thread.view.suggestions, ["more"]);
});

test("what did not change is the same object, in what is pending too", () => {
  const thread = new Thread();
  thread.ask("r1");
  thread.events(started("r9"), called("c1", '{"a":["x"],"b":"'), called("c2", "{}"));
  const before = thread.view;
  assert.equal(thread.view.messages, before.messages);
  assert.equal(thread.view.calls, before.calls);
  thread.events({ type: "TOOL_CALL_ARGS", toolCallId: "c1", delta: "y" });
  const after = thread.view;
  assert.notEqual(after.calls, before.calls);
  assert.notEqual(after.calls[0], before.calls[0]);
  assert.equal(after.calls[0].args.a, before.calls[0].args.a);
  assert.equal(after.calls[1], before.calls[1]);
  assert.deepEqual(after.messages.slice(-2), before.messages.slice(-2));
  for (const at of [-1, -2]) assert.equal(after.messages.at(at), before.messages.at(at));
  assert.deepEqual(before.calls[0].args, { a: ["x"], b: "" }, "what was shown stays as it was");
});

// ---- arguments ---------------------------------------------------------------------------------

test("P3: the arguments of a call are shown as far as they have come, in every view a little more", () => {
  const thread = new Thread();
  const pieces = ['{"ci', 'ty":"Pa', "ris\\u00", 'e9","n":1', '2,"tags":["a', '","b"]', "}"];
  const views = [{}, { city: "Pa" }, { city: "Paris" }, { city: "Parisé" }, { city: "Parisé", n: 12, tags: ["a"] }, { city: "Parisé", n: 12, tags: ["a", "b"] }];
  thread.events(started("r1"), called("c1"));
  assert.deepEqual(thread.args, { c1: {} });
  for (const [at, delta] of pieces.entries()) {
    thread.events({ type: "TOOL_CALL_ARGS", toolCallId: "c1", delta });
    assert.deepEqual(thread.args, { c1: views[at] ?? views.at(-1) });
  }
  thread.events({ type: "TOOL_CALL_END", toolCallId: "c1" });
  assert.deepEqual(thread.args.c1, JSON.parse(pieces.join("")));
});

test("arguments of several calls come in turn, also those of a sub-run's calls", () => {
  const thread = new Thread();
  const args = (toolCallId, delta) => ({ type: "TOOL_CALL_ARGS", toolCallId, delta, ...(toolCallId === "c2" && { subagentRunId: "s1" }) });
  thread.events(started("r1"), called("c1"), { type: "SUBAGENT_STARTED", subagentRunId: "s1", name: "helper" });
  thread.events({ ...called("c2")[0], subagentRunId: "s1" }, args("c1", '{"a":'), args("c2", '{"b":"'));
  assert.deepEqual(thread.args, { c1: {}, c2: { b: "" } });
  thread.events(args("c1", "1}"), args("c2", 'x"}'), args("c3", "{}"), { type: "CUSTOM", name: "handspan.call", value: { callId: "c1", state: "started" } });
  assert.deepEqual(thread.view.calls, [
    { callId: "c1", name: "t", state: "started", args: { a: 1 } },
    { callId: "c2", name: "t", state: "proposed", args: { b: "x" } },
  ]);
  thread.events(finished("r1"));
  assert.deepEqual(thread.view.calls, []);
});

test("P9: after a snapshot the arguments go on from there, and are never taken back", () => {
  const thread = new Thread();
  thread.events(started("r1"), called("c1", '{"a":"x'));
  assert.deepEqual(thread.args, { c1: { a: "x" } });
  const call = { id: "c1", type: "function", function: { name: "t", arguments: '{"a":"xyz' } };
  thread.state = known({
    messages: [{ id: "c1", role: "assistant", toolCalls: [call] }],
    run: { runId: "r1", depth: 0, status: "running" },
    calls: [{ callId: "c1", name: "t", args: {}, attempt: 1, yours: false, last: null }, { callId: "gone", name: "t", args: {}, attempt: 1, yours: false, last: null }],
    open: { calls: ["c1"] },
  });
  assert.deepEqual(thread.args, { c1: { a: "xyz" }, gone: {} });
  thread.events({ type: "TOOL_CALL_ARGS", toolCallId: "c1", delta: '!"}' });
  assert.deepEqual(thread.args.c1, { a: "xyz!" });
});

test("P3: a text that is cut off, empty, null or no JSON shows what was good of it, and breaks nothing", () => {
  const thread = new Thread();
  thread.events(started("r1"), called("c1", '{"a":"x","b":1'), called("c2"), called("c3", "null"), called("c4", '{"a":1} and'), called("c5", "12"));
  for (const toolCallId of ["c1", "c2", "c3", "c4", "c5"]) thread.events({ type: "TOOL_CALL_END", toolCallId });
  assert.deepEqual(thread.args, { c1: { a: "x" }, c2: {}, c3: {}, c4: { a: 1 }, c5: 12 });
});

test("P12: a delta costs what it is long: nothing of the text before it is looked at again", () => {
  const thread = new Thread();
  thread.events(started("r1"), called("c1", '{"a":"'));
  thread.view;
  let looked = 0;
  const long = "x".repeat(100);
  const delta = { length: 100, toString: () => long, *[Symbol.iterator]() { for (const char of long) { looked++; yield char; } } };
  for (let n = 0; n < 300; n++) {
    thread.events({ type: "TOOL_CALL_ARGS", toolCallId: "c1", delta });
    thread.view;
  }
  assert.equal(looked, 30_000);
  assert.equal(thread.args.c1.a.length, 30_000);
});

// ---- in a page ---------------------------------------------------------------------------------

/** The ids of every view that a subscriber gets, without repetitions. */
function watch(bridge) {
  const seen = [];
  bridge.subscribe(({ messages }) => {
    const ids = messages.map(({ content, role, pending }) => `${role === "user" ? content : role}${pending ? "?" : ""}`).join(" ");
    if (ids !== seen.at(-1)) seen.push(ids);
  });
  return seen;
}

async function openWatched(options, server) {
  const opened = await openPage(options, server);
  const seen = watch(opened.bridge);
  await rest();
  return { ...opened, seen };
}

const sentMessage = (server, at = 0) => server.sent("run.start")[at].message;

test("the moment a run is asked for its message is seen, though the server has not said a word", async () => {
  const { bridge, server, seen } = await openWatched();
  server.accepting = false;
  server.socket.drop();
  bridge.run("hi");
  await Promise.resolve();
  assert.deepEqual(seen, ["", "hi? assistant?"]);
  assert.deepEqual(bridge.messages, [], "bridge.messages has what the server told");
});

test("message and answer are replaced by the real ones, view by view, under the same id", async () => {
  const { bridge, server, seen } = await openWatched();
  let view;
  bridge.subscribe((now) => (view = now));
  const run = bridge.run("hi");
  await rest();
  const [{ id }] = view.messages;
  server.events([started(run.id, sentMessage(server))]);
  await rest();
  assert.equal(view.messages[0].id, id);
  server.events([...text("m1", "ho")]);
  server.events([{ type: "TEXT_MESSAGE_END", messageId: "m1" }, finished(run.id)]);
  await rest();
  assert.deepEqual(seen, ["", "hi? assistant?", "hi assistant?", "hi assistant"]);
});

test("C126: a refused run is taken back, one of two at once only", async () => {
  const { bridge, server, seen } = await openWatched();
  const answers = [{ runId: "r" }, refusal("busy")];
  server.answers["run.start"] = () => answers.shift();
  const [one, two] = [bridge.run("one"), bridge.run("two")];
  assert.deepEqual(await outcome(two.finished), { code: "busy" });
  await rest();
  server.events([started(one.id, sentMessage(server))]);
  await rest();
  assert.deepEqual(seen, ["", "one? assistant? two? assistant?", "one? assistant?", "one assistant?"]);
});

test("P5: what is stopped in the queue, before anything came, leaves nothing; what is stopped later its message", async () => {
  const { bridge, server, seen } = await openWatched();
  server.answers["run.start"] = ({ runId }) => ({ runId, queued: true });
  server.answers["run.abort"] = { aborted: true };
  const run = bridge.run("hi", { ifBusy: "queue" });
  await rest();
  await run.abort();
  await rest();
  assert.deepEqual(seen, ["", "hi? assistant?", ""]);
  const other = bridge.run("ho");
  await rest();
  server.events([started(other.id, sentMessage(server, 1)), { ...finished(other.id), outcome: { type: "cancelled" }, result: { reason: "aborted", depth: 0 } }]);
  await rest();
  assert.deepEqual(seen, ["", "hi? assistant?", "", "ho? assistant?", "ho"]);
});

test("P9: through a reconnect with a snapshot the message stays, and there is one of it", async () => {
  const server = new FakeServer();
  const known = {};
  server.answers.hello = (hello, socket) => {
    server.epoch = `e${server.sockets.length}`;
    server.snapshots = { t1: known };
    server.welcome(hello, socket);
  };
  const { bridge, seen } = await openWatched({}, server);
  const run = bridge.run("hi");
  await rest();
  Object.assign(known, { messages: [sentMessage(server)], run: { runId: run.id, depth: 0, status: "running" } });
  server.socket.drop();
  await new Promise((go) => setTimeout(go));
  await rest();
  server.events([...text("m1", "ho")], { offset: 1 });
  await rest();
  assert.deepEqual(seen, ["", "hi? assistant?", "hi assistant?", "hi assistant"]);
});

test("what is pending when the bridge is closed goes with it", async () => {
  const { bridge, seen } = await openWatched();
  bridge.run("hi").finished.catch(() => {});
  await rest();
  bridge.close();
  await rest();
  assert.deepEqual(seen, ["", "hi? assistant?", ""]);
});

test("suggestions come after the run's end, belong to no iteration, and to the last run only", async () => {
  const { bridge, server } = await openWatched();
  let view;
  bridge.subscribe((now) => (view = now));
  const suggest = (runId, ...items) => ({ type: "CUSTOM", name: "handspan.suggestions", value: { runId, items } });
  const run = bridge.run("hi");
  const types = [];
  const reading = (async () => { for await (const { type } of run) types.push(type); })();
  server.events([started(run.id), finished(run.id), suggest(run.id, "more", "less")]);
  await reading;
  await rest();
  assert.deepEqual(types, ["RUN_STARTED", "RUN_FINISHED"]);
  assert.deepEqual(view.suggestions, ["more", "less"]);
  server.events([suggest("r0", "old")]);
  await rest();
  assert.deepEqual(view.suggestions, ["more", "less"]);
  const other = bridge.run("ho");
  await Promise.resolve();
  assert.deepEqual(view.suggestions, []);
  server.events([started(other.id), suggest(run.id, "late")]);
  await rest();
  assert.deepEqual(view.suggestions, []);
  const seen = [];
  const again = (async () => { for await (const { type } of other) seen.push(type); })();
  server.events([finished(other.id)]);
  server.events([suggest(other.id, "next")]);
  await again;
  await rest();
  assert.deepEqual([seen.at(-1), view.suggestions], ["RUN_FINISHED", ["next"]]);
});

test("where the overlay cannot be loaded, views are the bare state, and nothing is an error", async (t) => {
  const copy = mkdtempSync(join(tmpdir(), "handspan-"));
  t.after(() => rmSync(copy, { recursive: true }));
  cpSync(fileURLToPath(new URL("../../bridge/handspan/client", import.meta.url)), copy, { recursive: true });
  rmSync(join(copy, "core/overlay.js"));
  const { connect } = await import(pathToFileURL(join(copy, "handspan.js")));
  const server = new FakeServer();
  const problems = [];
  const unhandled = (error) => problems.push(error);
  process.on("unhandledRejection", unhandled);
  const bridge = connect({ url: "ws://host.test", threadId: "t1", WebSocket: server.WebSocket, backoff: () => 0 });
  bridge.onError((problem) => problems.push(problem));
  await rest();
  const seen = watch(bridge);
  const run = bridge.run("hi");
  await assert.rejects(import(pathToFileURL(join(copy, "core/overlay.js"))));
  await rest();
  server.events([started(run.id, sentMessage(server)), ...called("c1", '{"a":"x')]);
  await rest();
  let view;
  bridge.subscribe((now) => (view = now));
  assert.deepEqual([view.run.runId, view.calls], [run.id, [{ callId: "c1", name: "t", state: "proposed" }]]);
  server.events([finished(run.id)]);
  await run.finished;
  await rest();
  process.off("unhandledRejection", unhandled);
  bridge.close();
  assert.deepEqual(seen, ["", "hi assistant"]);
  assert.deepEqual(problems, []);
});
