import assert from "node:assert/strict";
import test from "node:test";
import "../../bridge/handspan/client/core/overlay.js"; // is there already when somebody subscribes
import { FakeServer, openPage, outcome, page, refusal, rest } from "./fakes.js";

const started = (runId) => ({ type: "RUN_STARTED", threadId: "t1", runId });
const finished = (runId, result = { reason: "completed", depth: 0 }, outcome = { type: "success" }) => ({
  type: "RUN_FINISHED",
  threadId: "t1",
  runId,
  outcome,
  result,
});

async function back(server) {
  server.socket.drop();
  await new Promise((go) => setTimeout(go));
  await rest();
}

/** A server that forgets its sessions, and says what it still knows of t1. */
function forgetful(known) {
  const server = new FakeServer();
  server.answers.hello = (hello, socket) => {
    server.epoch = `e${server.sockets.length}`;
    server.snapshots = { t1: server.sockets.length > 1 ? known() : {} };
    server.welcome(hello, socket, { resumed: false });
  };
  return server;
}

test("a run is known by its id at once, and started with what was asked", async () => {
  const { bridge, server } = await openPage({ agent: "guide" });
  const run = bridge.run("hi", { ifBusy: "queue", after: "m1", forwardedProps: { at: new Date(0) } });
  assert.match(run.id, /^r-[A-Za-z0-9]{16,}$/);
  await rest();
  const { id, message, ...start } = server.sent("run.start")[0];
  assert.match(message.id, /^u-[A-Za-z0-9]{16,}$/);
  assert.deepEqual({ ...message, id: "u" }, { id: "u", role: "user", content: "hi" });
  assert.deepEqual(start, {
    type: "run.start",
    threadId: "t1",
    runId: run.id,
    agent: "guide",
    ifBusy: "queue",
    after: "m1",
    forwardedProps: { at: "1970-01-01T00:00:00.000Z" },
  });
});

test("a message may be parts, a user message, or none; one without an id is given one", async () => {
  const { bridge, server } = await openPage();
  bridge.run([{ type: "text", text: "hi" }]);
  bridge.run({ id: "u1", role: "user", content: "hi" }, { runId: "mine", agent: "other" });
  bridge.run({ content: "" });
  bridge.run();
  bridge.run(null);
  await rest();
  const [parts, message, empty, ...none] = server.sent("run.start");
  assert.deepEqual(parts.message, { id: parts.message.id, role: "user", content: [{ type: "text", text: "hi" }] });
  assert.deepEqual(message.message, { id: "u1", role: "user", content: "hi" });
  assert.deepEqual([message.runId, message.agent], ["mine", "other"]);
  assert.deepEqual(empty.message, { id: empty.message.id, role: "user", content: "" });
  assert.equal(new Set([parts, message, empty].map(({ message: { id } }) => id)).size, 3);
  assert.deepEqual(none.map(({ message }) => message ?? "none"), ["none", "none"]);
});

test("P6: a run is an iterable of its own events, for every reader from the start, and ends with it", async () => {
  const { bridge, server } = await openPage();
  const run = bridge.run("hi");
  const live = [];
  const reading = (async () => { for await (const event of run) live.push(event.type); })();
  server.events([{ type: "CUSTOM", name: "before", value: 1 }]);
  server.events([started(run.id), { type: "TEXT_MESSAGE_START", messageId: "m1" }]);
  await rest();
  assert.deepEqual(live, ["RUN_STARTED", "TEXT_MESSAGE_START"]);
  server.events([{ type: "TEXT_MESSAGE_END", messageId: "m1" }, finished(run.id, { reason: "completed", depth: 2, output: { n: 1 } })]);
  server.events([{ type: "CUSTOM", name: "handspan.suggestions", value: { runId: run.id, items: ["more"] } }, started("r2")]);
  await reading;
  assert.deepEqual(await run.finished, { reason: "completed", depth: 2, output: { n: 1 } });
  const again = [];
  for await (const event of run) again.push(event.type);
  assert.deepEqual(again, ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_FINISHED"]);
  assert.deepEqual(live, again);
});

test("P5, C065: a run that was stopped ends with reason aborted, as no error", async () => {
  const { bridge, server } = await openPage();
  server.answers["run.abort"] = { aborted: true };
  const run = bridge.run("hi");
  server.events([started(run.id)]);
  await rest();
  const stopping = run.abort();
  server.events([finished(run.id, { reason: "aborted", depth: 1 }, { type: "cancelled" })]);
  assert.equal(await stopping, true);
  assert.deepEqual(await run.finished, { reason: "aborted", depth: 1 });
  const { threadId, runId } = server.sent("run.abort")[0];
  assert.deepEqual([threadId, runId], ["t1", run.id]);
});

test("P5, C095: bridge.abort stops the thread's run, and says false when there was none", async () => {
  const { bridge, server } = await openPage();
  server.answers["run.abort"] = { aborted: false };
  assert.equal(await bridge.abort(), false);
  const { threadId, runId } = server.sent("run.abort")[0];
  assert.deepEqual([threadId, runId], ["t1", undefined]);
});

test("P5: a run that is stopped in the queue ends aborted, though the log never speaks of it", async () => {
  const { bridge, server } = await openPage();
  server.answers["run.start"] = ({ runId }) => ({ runId, queued: true });
  server.answers["run.abort"] = { aborted: true };
  const run = bridge.run("hi", { ifBusy: "queue" });
  await rest();
  await run.abort();
  assert.deepEqual(await run.finished, { reason: "aborted", depth: 0 });
});

test("a failed run rejects with the code of its RUN_ERROR, and its events came", async () => {
  const { bridge, server } = await openPage();
  const run = bridge.run("hi");
  const types = [];
  const reading = outcome((async () => { for await (const event of run) types.push(event.type); })());
  server.events([started(run.id), { type: "RUN_ERROR", message: "it broke", code: "provider_error" }]);
  await assert.rejects(run.finished, { code: "provider_error", message: "it broke", name: "HandspanError" });
  assert.deepEqual(await reading, { code: "provider_error" });
  assert.deepEqual(types, ["RUN_STARTED", "RUN_ERROR"]);
});

test("C126: a refused run rejects with the command's code, and so does who reads its events", async () => {
  const { bridge, server } = await openPage();
  server.answers["run.start"] = refusal("busy", "a run is going on");
  const run = bridge.run("hi");
  await assert.rejects(run.finished, { code: "busy" });
  await assert.rejects(async () => { for await (const _ of run); }, { code: "busy" });
});

test("C065: nobody has to look at what fails: no rejection goes unhandled", async () => {
  const unhandled = [];
  const note = (error) => unhandled.push(error);
  process.on("unhandledRejection", note);
  const { bridge, server } = await openPage();
  for (const type of ["run.start", "tool.invoke", "run.abort", "state.update"]) server.answers[type] = refusal("forbidden");
  const run = bridge.run("hi");
  run.abort();
  bridge.runTool("t");
  bridge.abort();
  bridge.setState(1);
  bridge.patchState([]);
  bridge.run("late");
  await rest();
  bridge.run("at the end");
  bridge.close();
  bridge.run("too late");
  bridge.runTool("t");
  bridge.abort();
  await rest();
  process.off("unhandledRejection", note);
  assert.deepEqual(unhandled, []);
});

test("what becomes of a run that nobody waits for is told to onError", async () => {
  const { bridge, server, problems } = await openPage();
  server.answers["run.start"] = refusal("unknown_agent", "there is no agent");
  bridge.run("hi");
  bridge.run("looked at").finished.catch(() => {});
  const read = (async () => { for await (const _ of bridge.run("read")); })().catch(() => {});
  await rest();
  await read;
  assert.deepEqual(problems.map(({ code }) => code), ["unknown_agent"]);
});

test("C122: runTool comes to the call's outcome, ok or not; only a refused command rejects", async () => {
  const { bridge, server } = await openPage();
  const failed = { callId: "c2", runId: "r2", outcome: "error", error: { code: "timeout", message: "late" } };
  const replies = [{ callId: "c1", runId: "r1", outcome: "ok", result: { on: true } }, failed, refusal("unknown_tool")];
  server.answers["tool.invoke"] = () => replies.shift();
  assert.deepEqual(await bridge.runTool("t", { x: 1n }, { followUp: "explain" }), { callId: "c1", runId: "r1", outcome: "ok", result: { on: true } });
  assert.deepEqual(await bridge.runTool("t"), failed);
  await assert.rejects(bridge.runTool("nope"), { code: "unknown_tool" });
  const [first, second] = server.sent("tool.invoke");
  assert.deepEqual([first.name, first.args, first.followUp, second.args], ["t", { x: "1" }, "explain", {}]);
});

test("P12: a command larger than a frame may be is refused here, and the socket lives", async () => {
  const server = new FakeServer();
  server.limits = { frameBytes: 1_000 };
  const { bridge } = await openPage({}, server);
  await assert.rejects(bridge.run("x".repeat(2_000)).finished, { code: "too_large" });
  await assert.rejects(bridge.runTool("t", { big: "x".repeat(2_000) }), { code: "too_large" });
  assert.equal(bridge.status, "open");
});

test("state: patches and values go as commands, what comes back is folded", async () => {
  const { bridge, server } = await openPage();
  await bridge.patchState([{ op: "add", path: "/x", value: new Set([1]) }]);
  await bridge.setState(undefined);
  const [patched, set] = server.sent("state.update");
  assert.deepEqual([patched.threadId, patched.patch], ["t1", [{ op: "add", path: "/x", value: [1] }]]);
  assert.deepEqual([set.state, "patch" in set], [null, false]);
  server.answers["state.update"] = refusal("too_large");
  await assert.rejects(bridge.setState({}), { code: "too_large" });
});

// ---- across reconnects ------------------------------------------------------------------------

test("P9: a command without an answer is sent again, under its id, and answered once", async () => {
  const { bridge, server } = await openPage();
  server.answers["run.start"] = () => undefined;
  const run = bridge.run("hi");
  await rest();
  server.answers["run.start"] = { runId: run.id };
  await back(server);
  await back(server);
  const [first, second, ...more] = server.sent("run.start");
  assert.deepEqual(second, first);
  assert.deepEqual(more, []);
});

test("P9: what is asked while there is no socket is asked when there is one, in order", async () => {
  const { bridge, server } = await openPage();
  server.accepting = false;
  server.socket.drop();
  bridge.run("one");
  bridge.patchState([]);
  bridge.run("two");
  await new Promise((go) => setTimeout(go));
  server.socket.open();
  await rest();
  assert.deepEqual(server.frames.slice(-4).map(({ type, message }) => message?.content ?? type), ["hello", "one", "state.update", "two"]);
});

test("P9, C087: events that come twice count once, those of another log not at all", async () => {
  const { bridge, server } = await openPage();
  const run = bridge.run("hi");
  const text = (delta) => ({ type: "TEXT_MESSAGE_CONTENT", messageId: "m1", delta });
  server.events([started(run.id), { type: "TEXT_MESSAGE_START", messageId: "m1" }, text("a")], { offset: 3 });
  server.events([text("a")], { offset: 3 });
  server.events([text("b")], { offset: 7 });
  await rest();
  assert.equal(bridge.messages[0].content, "ab");
  server.events([text("c")], { offset: 8, epoch: "e9" });
  await rest();
  assert.equal(bridge.messages[0].content, "ab");
  await back(server);
  assert.deepEqual(server.sent("hello")[1].threads, [{ threadId: "t1", epoch: "e1", offset: 7 }]);
});

test("a run that ended while the page was away ends as the snapshot says", async () => {
  let last;
  const server = forgetful(() => ({ lastRun: last }));
  const { bridge } = await openPage({}, server);
  const good = bridge.run("hi");
  await rest();
  last = { runId: good.id, outcome: { type: "success" }, result: { reason: "stop_condition", depth: 3 } };
  await back(server);
  assert.deepEqual(await good.finished, { reason: "stop_condition", depth: 3 });
  const bad = bridge.run("hi");
  await rest();
  last = { runId: bad.id, error: { message: "no", code: "output_limit" } };
  await back(server);
  await assert.rejects(bad.finished, { code: "output_limit" });
});

test("a run that the server no longer knows is lost, and one that still goes on is not", async () => {
  let run;
  const server = forgetful(() => ({ run: run && { runId: run.id, depth: 1, status: "running" } }));
  const { bridge } = await openPage({}, server);
  run = bridge.run("hi");
  await rest();
  await back(server);
  assert.equal(bridge.status, "open");
  assert.equal(await Promise.race([run.finished, rest().then(() => "going on")]), "going on");
  const kept = run;
  run = undefined;
  await back(server);
  assert.equal((await kept.finished).reason, "lost");
  for await (const event of kept) assert.ok(event);
});

test("a run whose command was never answered is no lost one: it is started again", async () => {
  const server = forgetful(() => ({}));
  const { bridge } = await openPage({}, server);
  server.answers["run.start"] = () => undefined;
  const run = bridge.run("hi");
  await rest();
  server.answers["run.start"] = { runId: run.id };
  await back(server);
  server.events([started(run.id), finished(run.id)], { offset: 2 });
  assert.equal((await run.finished).reason, "completed");
  assert.equal(server.sent("run.start").length, 2);
});

test("a queued run waits through a snapshot of its own session, and is lost with the session", async () => {
  const server = new FakeServer();
  let resumed = true;
  server.answers["run.start"] = ({ runId }) => ({ runId, queued: true });
  server.answers.hello = (hello, socket) => {
    server.epoch = `e${server.sockets.length}`;
    server.snapshots = { t1: { run: { runId: "other", depth: 0, status: "running" } } };
    server.welcome(hello, socket, { resumed: !!hello.session && resumed });
  };
  const { bridge } = await openPage({}, server);
  const run = bridge.run("hi", { ifBusy: "queue" });
  await rest();
  await back(server);
  assert.equal(await Promise.race([run.finished, rest().then(() => "waiting")]), "waiting");
  resumed = false;
  await back(server);
  assert.equal((await run.finished).reason, "lost");
});

test("P16: a run that was sent twice and is a duplicate_id ends as what is known of it says", async () => {
  for (const [known, reason] of [
    [(runId) => ({ lastRun: { runId, result: { reason: "completed", depth: 1 } } }), "completed"],
    [(runId) => ({ run: { runId, depth: 1, status: "running" } }), "going on"],
    [() => ({}), "lost"],
  ]) {
    let run;
    const server = forgetful(() => known(run.id));
    const { bridge } = await openPage({}, server);
    server.answers["run.start"] = () => undefined;
    run = bridge.run("hi");
    await rest();
    server.answers["run.start"] = refusal("duplicate_id");
    await back(server);
    const end = await Promise.race([run.finished, rest().then(() => ({ reason: "going on" }))]);
    assert.equal(end.reason, reason);
  }
});

test("a thread that the server does not give fails its runs with the reason", async () => {
  const { bridge, server, problems } = await openPage();
  const ended = assert.rejects(bridge.run("hi").finished, { code: "forbidden" });
  await rest();
  server.answers.hello = (hello, socket) =>
    server.welcome(hello, socket, { threads: [{ threadId: "t1", error: { code: "forbidden", message: "not yours" } }] });
  await back(server);
  await ended;
  assert.deepEqual(problems.map(({ code, threadId }) => [code, threadId]), [["forbidden", "t1"]]);
});

// ---- what subscribers see ---------------------------------------------------------------------

test("a subscriber is called at once, and once for each frame, however many events it has", async () => {
  const { bridge, server } = await openPage();
  const views = [];
  const stop = bridge.subscribe((view) => views.push(view));
  assert.equal(views.length, 1);
  await rest();
  assert.equal(views.length, 2, "once more: what only a subscriber needs has been loaded");
  views.shift();
  for (const key of ["calls", "lastRun", "messages", "open", "run", "state", "status", "suggestions"]) assert.ok(key in views[0], key);
  const deltas = Array.from({ length: 200 }, () => ({ type: "TEXT_MESSAGE_CONTENT", messageId: "m1", delta: "x" }));
  server.events([started("r9"), { type: "TEXT_MESSAGE_START", messageId: "m1" }, ...deltas]);
  await rest();
  assert.equal(views.length, 2);
  assert.equal(views[1].messages[0].content.length, 200);
  assert.deepEqual(views[1].run, { runId: "r9", depth: 0 });
  assert.equal(views[1].state, views[0].state, "what did not change is the same object");
  assert.equal(bridge.messages, views[1].messages);
  stop();
  server.events([finished("r9")]);
  await rest();
  assert.equal(views.length, 2);
});

test("C092: two hundred chunks and a call need no timer", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] }); // a hidden tab's would be slow
  const { bridge, server } = await openPage();
  bridge.tool("t", { description: "d" }, () => "done");
  await rest();
  server.events([started("r9"), { type: "TEXT_MESSAGE_START", messageId: "m1" }]);
  for (let n = 0; n < 200; n++) server.events([{ type: "TEXT_MESSAGE_CONTENT", messageId: "m1", delta: "x" }]);
  server.call();
  await rest(30);
  assert.equal(bridge.messages[0].content.length, 200);
  assert.equal(server.sent("tool.result")[0].result, "done");
});

test("P14: a subscriber that throws harms no other, and is reported", async () => {
  const { bridge, server, problems } = await openPage();
  let count = 0;
  bridge.subscribe(() => { throw new Error("render"); });
  bridge.subscribe(() => count++);
  await rest();
  server.events([started("r9")]);
  await rest();
  assert.equal(count, 3);
  assert.deepEqual(problems.map(({ message }) => message), ["render", "render", "render"]);
});

test("P14: onError's own failures harm nothing", async (t) => {
  const silent = t.mock.method(console, "error", () => {});
  const { bridge, server, problems } = await openPage();
  bridge.onError(() => { throw new Error("in onError"); });
  server.push("{");
  await rest();
  assert.equal(problems[0].code, "bad_frame");
  assert.equal(silent.mock.callCount(), 1);
});

test("the status is told to subscribers of every thread", async () => {
  const { bridge, server } = page();
  const seen = [];
  bridge.thread("t2").subscribe(({ status }) => seen.push(status));
  await rest();
  await back(server);
  bridge.close();
  await rest();
  assert.deepEqual([...new Set(seen)], ["connecting", "open", "reconnecting", "closed"]);
});

// ---- several conversations --------------------------------------------------------------------

test("P8, C080: conversations on one socket keep to themselves", async () => {
  const { bridge, server } = await openPage();
  const other = bridge.thread("t2");
  assert.equal(bridge.thread("t2"), other);
  const [mine, theirs] = [bridge.run("hi"), other.run("ho")];
  await rest();
  assert.equal(server.sent("thread.open")[0].threadId, "t2");
  assert.deepEqual(server.sent("run.start").map(({ threadId }) => threadId), ["t1", "t2"]);
  server.events([{ ...started(theirs.id), threadId: "t2" }, { ...finished(theirs.id), threadId: "t2" }], { threadId: "t2", offset: 2 });
  server.events([started(mine.id)], { offset: 1 });
  assert.equal((await theirs.finished).reason, "completed");
  assert.equal(bridge.messages.length, 0);
  other.close();
  server.events([{ type: "TEXT_MESSAGE_START", messageId: "m" }], { threadId: "t2", offset: 3 });
  await rest();
  assert.equal(server.sent("thread.close")[0].threadId, "t2");
  assert.deepEqual(other.messages, []);
  await back(server);
  assert.deepEqual(server.sent("hello")[1].threads.map(({ threadId }) => threadId), ["t1"]);
  assert.notEqual(bridge.thread("t2"), other, "a closed one can be opened again");
});

test("runs of a conversation that is closed reject with closed", async () => {
  const { bridge } = await openPage();
  const other = bridge.thread("t2");
  const run = other.run("hi");
  await rest();
  other.close();
  await assert.rejects(run.finished, { code: "closed" });
});

// ---- approvals --------------------------------------------------------------------------------

const ask = (fields) => ({ type: "approval.request", callId: "c1", threadId: "t1", runId: "r1", name: "pay", args: { eur: 5 }, digest: "d1", expiresMs: 1000, ...fields });

test("P10: a question is asked once, and the answer names call and digest, edited arguments with it", async () => {
  const { bridge, server } = await openPage();
  const asked = [];
  bridge.onApproval(async (request) => {
    asked.push([request.name, request.args, request.reason]);
    return { approved: true, args: { eur: 4n }, remember: true, reason: "cheaper" };
  });
  server.push(ask({ reason: "it costs" }), ask({ reason: "it costs" }));
  await rest();
  assert.deepEqual(asked, [["pay", { eur: 5 }, "it costs"]]);
  const [{ id, ...answer }, ...more] = server.sent("approval.answer");
  assert.deepEqual(answer, { type: "approval.answer", callId: "c1", digest: "d1", approved: true, reason: "cheaper", args: { eur: "4" }, remember: true });
  assert.deepEqual(more, []);
});

test("P10: a changed question is asked anew; three at once are all asked, each with its own answer (C107)", async () => {
  const { bridge, server } = await openPage();
  bridge.onApproval(({ callId, digest }) => ({ approved: callId !== "c2", reason: digest }));
  server.push(ask(), ask({ digest: "d2" }), ask({ callId: "c2" }), ask({ callId: "c3" }));
  await rest();
  assert.deepEqual(server.sent("approval.answer").map(({ callId, digest, approved }) => [callId, digest, approved]), [
    ["c1", "d1", true],
    ["c1", "d2", true],
    ["c2", "d1", false],
    ["c3", "d1", true],
  ]);
});

test("P10: closed when in doubt: anything but approved: true is a no; no answer leaves it open", async () => {
  const { bridge, server, problems } = await openPage();
  const answers = [{ approved: "yes" }, {}, undefined, null, new Error("dialog broke")];
  bridge.onApproval(async () => {
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  });
  for (let n = 0; n < 5; n++) server.push(ask({ callId: `c${n}` }));
  await rest();
  assert.deepEqual(server.sent("approval.answer").map(({ callId, approved }) => [callId, approved]), [["c0", false], ["c1", false]]);
  assert.deepEqual(problems.map(({ message }) => message), ["dialog broke"]);
});

test("P10: without a handler a question stays open, and the next handler is asked", async () => {
  const { bridge, server } = await openPage();
  const remove = bridge.onApproval(() => ({ approved: false }));
  remove();
  server.push(ask());
  await rest();
  assert.deepEqual(server.sent("approval.answer"), []);
  bridge.onApproval(() => ({ approved: true }));
  await rest();
  assert.equal(server.sent("approval.answer")[0].approved, true);
});

test("P10, C101: a question that is decided elsewhere is closed: a late answer is not sent", async () => {
  const { bridge, server } = await openPage();
  let answer;
  bridge.onApproval(() => new Promise((go) => (answer = go)));
  server.events([started("r1"), { type: "TOOL_CALL_START", toolCallId: "c1", toolCallName: "pay" }]);
  server.events([{ type: "CUSTOM", name: "handspan.call", value: { callId: "c1", state: "waiting_approval" } }]);
  server.push(ask());
  server.events([{ type: "CUSTOM", name: "handspan.call", value: { callId: "c1", state: "dispatched" } }]);
  await rest();
  answer({ approved: true });
  await rest();
  assert.deepEqual(server.sent("approval.answer"), []);
});
