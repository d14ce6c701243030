import assert from "node:assert/strict";
import test from "node:test";
import { apply, EMPTY, follows, fromSnapshot } from "../../bridge/handspan/client/core/reducer.js";
import { vectors } from "./vectors.js";

const fold = (events, state = EMPTY) => events.reduce(apply, state);
/** As it would come over the wire: absent members are absent. */
const plain = (value) => JSON.parse(JSON.stringify(value));

for (const { name, events, messages, state } of vectors("fold"))
  test(`P6, P9: fold: ${name}`, () => {
    const folded = fold(events);
    assert.deepEqual(folded.messages, messages);
    assert.deepEqual(folded.state, state);
  });

const CALL = (callId, state, more) => ({ type: "CUSTOM", name: "handspan.call", value: { callId, state, ...more } });

/** Two runs with all that can happen in one: texts, thoughts, parallel calls, a sub-run, state, an abort. */
const RECORDED = [
  { type: "RUN_STARTED", threadId: "t1", runId: "r1", input: { threadId: "t1", runId: "r1", messages: [{ id: "u1", role: "user", content: "hi" }] } },
  { type: "STEP_STARTED", stepName: "step-0" },
  { type: "REASONING_START", messageId: "s1" },
  { type: "REASONING_MESSAGE_START", messageId: "th1", role: "reasoning" },
  { type: "REASONING_MESSAGE_CONTENT", messageId: "th1", delta: "hm" },
  { type: "REASONING_MESSAGE_END", messageId: "th1" },
  { type: "REASONING_END", messageId: "s1" },
  { type: "TEXT_MESSAGE_START", messageId: "m1", role: "assistant" },
  { type: "TEXT_MESSAGE_CONTENT", messageId: "m1", delta: "Hel" },
  { type: "TEXT_MESSAGE_CONTENT", messageId: "m1", delta: "lo" },
  { type: "TEXT_MESSAGE_END", messageId: "m1" },
  { type: "TOOL_CALL_START", toolCallId: "c1", toolCallName: "a", parentMessageId: "m1" },
  { type: "TOOL_CALL_ARGS", toolCallId: "c1", delta: '{"x"' },
  { type: "TOOL_CALL_START", toolCallId: "c2", toolCallName: "b", parentMessageId: "m1" },
  { type: "TOOL_CALL_ARGS", toolCallId: "c2", delta: '{"y":2}' },
  { type: "TOOL_CALL_ARGS", toolCallId: "c1", delta: ":1}" },
  { type: "TOOL_CALL_END", toolCallId: "c1" },
  { type: "TOOL_CALL_END", toolCallId: "c2" },
  CALL("c1", "waiting_approval"),
  CALL("c2", "dispatched"),
  CALL("c2", "started"),
  CALL("c2", "progress", { progress: 1, total: 2, message: "half" }),
  CALL("c1", "dispatched"),
  { type: "STATE_SNAPSHOT", snapshot: { n: 0, __proto__: null } },
  { type: "STATE_DELTA", delta: [{ op: "add", path: "/list", value: [] }, { op: "add", path: "/list/-", value: 1 }] },
  { type: "STATE_DELTA", delta: [{ op: "replace", path: "/nowhere/x", value: 1 }] },
  CALL("c2", "settled", { outcome: "ok" }),
  CALL("c1", "settled", { outcome: "error", code: "timeout" }),
  { type: "TOOL_CALL_RESULT", messageId: "x1", toolCallId: "c1", content: "no", metadata: { handspan: { outcome: "error", code: "timeout" } } },
  { type: "TOOL_CALL_RESULT", messageId: "x2", toolCallId: "c2", content: "2", metadata: { handspan: { outcome: "ok" } } },
  { type: "STEP_FINISHED", stepName: "step-0" },
  { type: "STEP_STARTED", stepName: "step-1" },
  { type: "SUBAGENT_STARTED", subagentRunId: "r2", name: "helper" },
  { type: "STEP_STARTED", stepName: "step-2", subagentRunId: "r2" },
  { type: "TEXT_MESSAGE_START", messageId: "m2", role: "assistant", subagentRunId: "r2" },
  { type: "TEXT_MESSAGE_CONTENT", messageId: "m2", delta: "sub", subagentRunId: "r2" },
  { type: "TEXT_MESSAGE_END", messageId: "m2", subagentRunId: "r2" },
  { type: "STEP_FINISHED", stepName: "step-2", subagentRunId: "r2" },
  { type: "SUBAGENT_FINISHED", subagentRunId: "r2" },
  { type: "ACTIVITY_SNAPSHOT", messageId: "a1", activityType: "plan", content: { done: 0 } },
  { type: "ACTIVITY_DELTA", messageId: "a1", activityType: "plan", patch: [{ op: "replace", path: "/done", value: 1 }] },
  { type: "TEXT_MESSAGE_START", messageId: "m3", role: "assistant" },
  { type: "TEXT_MESSAGE_END", messageId: "m3" },
  { type: "STEP_FINISHED", stepName: "step-1" },
  { type: "RUN_FINISHED", threadId: "t1", runId: "r1", outcome: { type: "success" }, result: { reason: "completed", depth: 1 } },
  { type: "CUSTOM", name: "handspan.suggestions", value: { runId: "r1", items: ["more?"] } },
  { type: "RUN_STARTED", threadId: "t1", runId: "r3" },
  { type: "MESSAGES_SNAPSHOT", messages: [{ id: "u1", role: "user", content: "hi" }] },
  { type: "STEP_STARTED", stepName: "step-0" },
  { type: "TOOL_CALL_START", toolCallId: "c3", toolCallName: "constructor" },
  { type: "TOOL_CALL_ARGS", toolCallId: "c3", delta: "{" },
  { type: "TOOL_CALL_END", toolCallId: "c3" },
  CALL("c3", "settled", { outcome: "error", code: "truncated_turn" }),
  { type: "TOOL_CALL_RESULT", messageId: "x3", toolCallId: "c3", content: "cut" },
  { type: "STEP_FINISHED", stepName: "step-0" },
  { type: "RUN_ERROR", message: "it broke", code: "agent_error" },
];

const SUB = { subagentRunId: "r2" };

/** A run whose call starts a sub-run, which speaks, calls, starts one of its own, and is aborted. */
const DELEGATED = [
  { type: "RUN_STARTED", threadId: "t1", runId: "r1" },
  { type: "STEP_STARTED", stepName: "step-0" },
  { type: "TOOL_CALL_START", toolCallId: "c1", toolCallName: "ask" },
  { type: "TOOL_CALL_ARGS", toolCallId: "c1", delta: "{}" },
  { type: "TOOL_CALL_END", toolCallId: "c1" },
  CALL("c1", "started"),
  { type: "SUBAGENT_STARTED", subagentRunId: "r2", name: "helper" },
  { type: "STEP_STARTED", stepName: "step-1", ...SUB },
  { type: "TEXT_MESSAGE_START", messageId: "m2", role: "assistant", ...SUB },
  { type: "TEXT_MESSAGE_CONTENT", messageId: "m2", delta: "I look", ...SUB },
  { type: "TEXT_MESSAGE_END", messageId: "m2", ...SUB },
  { type: "TOOL_CALL_START", toolCallId: "c2", toolCallName: "look", parentMessageId: "m2", ...SUB },
  { type: "TOOL_CALL_ARGS", toolCallId: "c2", delta: '{"a":', ...SUB },
  CALL("c1", "progress", { progress: 1 }),
  { type: "TOOL_CALL_ARGS", toolCallId: "c2", delta: "1}", ...SUB },
  { type: "TOOL_CALL_END", toolCallId: "c2", ...SUB },
  CALL("c2", "settled", { outcome: "ok" }),
  { type: "TOOL_CALL_RESULT", messageId: "x2", toolCallId: "c2", content: "1", ...SUB },
  { type: "STEP_FINISHED", stepName: "step-1", ...SUB },
  { type: "STEP_STARTED", stepName: "step-2", ...SUB },
  { type: "SUBAGENT_STARTED", subagentRunId: "r3", name: "other", parentSubagentRunId: "r2" },
  { type: "STEP_STARTED", stepName: "step-3", subagentRunId: "r3" },
  { type: "TEXT_MESSAGE_START", messageId: "m3", role: "assistant", subagentRunId: "r3" },
  { type: "TEXT_MESSAGE_CONTENT", messageId: "m3", delta: "Hal", subagentRunId: "r3" },
  { type: "TEXT_MESSAGE_END", messageId: "m3", subagentRunId: "r3" },
  { type: "STEP_FINISHED", stepName: "step-3", subagentRunId: "r3" },
  { type: "SUBAGENT_ERROR", subagentRunId: "r3", message: "aborted", code: "aborted" },
  { type: "STEP_FINISHED", stepName: "step-2", ...SUB },
  { type: "SUBAGENT_ERROR", subagentRunId: "r2", message: "aborted", code: "aborted" },
  CALL("c1", "settled", { outcome: "ok" }),
  { type: "TOOL_CALL_RESULT", messageId: "x1", toolCallId: "c1", content: "aborted" },
  { type: "STEP_FINISHED", stepName: "step-0" },
  { type: "STEP_STARTED", stepName: "step-1" },
  { type: "TEXT_MESSAGE_START", messageId: "m4", role: "assistant" },
  { type: "TEXT_MESSAGE_CONTENT", messageId: "m4", delta: "Never mind" },
  { type: "TEXT_MESSAGE_END", messageId: "m4" },
  { type: "STEP_FINISHED", stepName: "step-1" },
  { type: "RUN_FINISHED", threadId: "t1", runId: "r1", outcome: { type: "success" }, result: { reason: "completed", depth: 1 } },
];

/** What a server would send of a thread, made by an account of its own: from events, not from our state. */
function snapshotOf(events) {
  const state = fold(events);
  const calls = new Map();
  const open = { messages: [], reasoning: [], calls: [], steps: [], subagents: [] };
  const close = (list, id) => list.splice(list.indexOf(id), 1);
  for (const event of events) {
    if (event.type === "RUN_STARTED" || /^RUN_(FINISHED|ERROR)$/.test(event.type)) calls.clear();
    if (event.type === "TOOL_CALL_START") calls.set(event.toolCallId, { callId: event.toolCallId, name: event.toolCallName, args: {}, attempt: 1, yours: false, last: null });
    if (event.name === "handspan.call") calls.get(event.value.callId).last = event.value;
    if (event.type === "TEXT_MESSAGE_START") open.messages.push(event.messageId);
    if (event.type === "TEXT_MESSAGE_END") close(open.messages, event.messageId);
    if (event.type === "REASONING_MESSAGE_START") open.reasoning.push(event.messageId);
    if (event.type === "REASONING_MESSAGE_END") close(open.reasoning, event.messageId);
    if (event.type === "TOOL_CALL_START") open.calls.push(event.toolCallId);
    if (event.type === "TOOL_CALL_END") close(open.calls, event.toolCallId);
  }
  const { messages, run, lastRun, suggestions } = state;
  const told = run && { ...run, status: "running" };
  return { type: "snapshot", threadId: "t1", epoch: "e", offset: 1, messages, state: state.state, run: told, lastRun, calls: [...calls.values()], open, suggestions };
}

test("P9, C086, C087: for every cut, a snapshot there and the events after it equal all events", () => {
  for (const recorded of [RECORDED, DELEGATED]) {
    const whole = plain(fold(recorded));
    for (let cut = 0; cut <= recorded.length; cut++) {
      const before = plain(snapshotOf(recorded.slice(0, cut)));
      const { epoch, offset, ...after } = plain(fold(recorded.slice(cut), fromSnapshot(before)));
      assert.deepEqual(after, whole, `cut after ${cut} events`);
    }
  }
});

test("P9: for every cut, a state that was kept and the events after it equal all events", () => {
  for (let cut = 0; cut <= RECORDED.length; cut++)
    assert.deepEqual(fold(RECORDED.slice(cut), fold(RECORDED.slice(0, cut))), fold(RECORDED));
});

test("a run's depth is its step's, whatever its sub-runs do, and its calls go with it", () => {
  const at = (count) => fold(RECORDED.slice(0, count));
  assert.deepEqual(at(2).run, { runId: "r1", depth: 0 });
  assert.deepEqual(at(38).run, { runId: "r1", depth: 1 });
  assert.deepEqual(at(38).calls.map(({ callId, state, code }) => [callId, state, code]), [
    ["c1", "settled", "timeout"],
    ["c2", "settled", undefined],
  ]);
  const ended = at(45);
  assert.equal(ended.run, null);
  assert.deepEqual(ended.calls, []);
  assert.deepEqual(ended.lastRun.result, { reason: "completed", depth: 1 });
  assert.deepEqual(fold(RECORDED).lastRun, { runId: "r3", error: { message: "it broke", code: "agent_error" } });
});

test("a sub-run's steps, texts and end are not its caller's; its calls are the run's", () => {
  let state = EMPTY;
  for (const event of DELEGATED.slice(0, -1)) {
    state = apply(state, event);
    const isLast = event.stepName === "step-1" && !event.subagentRunId && event.type === "STEP_STARTED";
    if (isLast) break;
    assert.deepEqual(state.run, { runId: "r1", depth: 0 }, event.type);
    assert.equal(state.lastRun, null);
  }
  assert.deepEqual(state.run, { runId: "r1", depth: 1 });
  assert.deepEqual(state.calls.map(({ callId, state }) => [callId, state]), [["c1", "settled"], ["c2", "settled"]]);
  assert.deepEqual(fold(DELEGATED).messages.map(({ id, subagentRunId }) => [id, subagentRunId]), [
    ["c1", undefined],
    ["x1", undefined],
    ["m2", "r2"],
    ["x2", "r2"],
    ["m3", "r3"],
    ["m4", undefined],
  ]);
});

test("suggestions stand until the next run begins", () => {
  assert.deepEqual(fold(RECORDED.slice(0, 46)).suggestions, ["more?"]);
  assert.deepEqual(fold(RECORDED.slice(0, 47)).suggestions, []);
});

test("suggestions for another run than the last one, or while one goes on, are passed over", () => {
  const suggest = (runId) => ({ type: "CUSTOM", name: "handspan.suggestions", value: { runId, items: [`of ${runId}`] } });
  assert.deepEqual(fold([suggest("r1")]).suggestions, []);
  assert.deepEqual(fold([suggest("r0")], fold(RECORDED.slice(0, 46))).suggestions, ["more?"]);
  assert.deepEqual(fold([suggest("r1")], fold(RECORDED.slice(0, 47))).suggestions, []);
  assert.deepEqual(fold([suggest("r3")], fold(RECORDED)).suggestions, ["of r3"], "a failed run's too");
});

test("a delta changes its message only: all others, and all else, are the same objects", () => {
  const before = fold(RECORDED.slice(0, 9));
  const after = apply(before, RECORDED[9]);
  assert.equal(after.messages[0], before.messages[0]);
  assert.notEqual(after.messages.at(-1), before.messages.at(-1));
  for (const key of ["state", "run", "lastRun", "calls", "suggestions", "open"]) assert.equal(after[key], before[key]);
  assert.equal(apply(after, { type: "RAW", event: {} }).messages, after.messages);
});

test("P13, P14: types, ids and names that live on prototypes are ordinary ones", () => {
  for (const type of ["constructor", "__proto__", "toString", "hasOwnProperty"])
    assert.deepEqual(fold([{ type }]), EMPTY);
  const state = fold([
    { type: "TEXT_MESSAGE_START", messageId: "__proto__" },
    { type: "TEXT_MESSAGE_CONTENT", messageId: "__proto__", delta: "a" },
    { type: "TEXT_MESSAGE_CONTENT", messageId: "constructor", delta: "b" },
  ]);
  assert.deepEqual(state.messages, [{ id: "__proto__", role: "assistant", content: "a" }]);
});

test("P9: events follow when they are of this log and beyond what is known; all others count for nothing", () => {
  const frame = (epoch, offset) => ({ type: "events", epoch, offset, events: [] });
  const state = { ...EMPTY, epoch: "e1", offset: 5 };
  assert.equal(follows(EMPTY, frame("e1", 0)), true);
  assert.equal(follows(state, frame("e1", 6)), true);
  assert.equal(follows(state, frame("e1", 60)), true, "gaps are allowed");
  assert.equal(follows(state, frame("e1", 5)), false);
  assert.equal(follows(state, frame("e2", 9)), false);
});

test("P12: ten thousand deltas over a long history are folded in well under a second's work", () => {
  const history = Array.from({ length: 2_000 }, (_, n) => ({ id: `h${n}`, role: "user", content: "x" }));
  let state = fold([{ type: "MESSAGES_SNAPSHOT", messages: history }, { type: "TEXT_MESSAGE_START", messageId: "m" }]);
  for (let n = 0; n < 10_000; n++) state = apply(state, { type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "ab" });
  assert.equal(state.messages.at(-1).content.length, 20_000);
});

const agui = await import("@ag-ui/client").catch(() => undefined);

test("the recorded runs are valid AG-UI, and AG-UI's own client folds them alike", { skip: !agui && "@ag-ui/client is not installed" }, async () => {
  const { from, lastValueFrom, toArray } = await import("rxjs");
  const { defaultApplyEvents, verifyEvents } = agui;
  // Between runs a strict client sees neither CUSTOM nor STATE_*: an adapter drops them (protocol 1).
  const strict = RECORDED.filter(({ name }) => name !== "handspan.suggestions");
  for (const events of [strict, DELEGATED]) {
    const verified = await lastValueFrom(from(events).pipe(verifyEvents(false), toArray()));
    assert.equal(verified.length, events.length);
  }
  const first = RECORDED.slice(0, 45).filter(({ messageId }) => messageId !== "m3"); // theirs keeps an empty text
  const input = { threadId: "t1", runId: "r1", messages: [], state: {}, tools: [], context: [] };
  const steps = await lastValueFrom(defaultApplyEvents(input, from(first), { messages: [], state: {} }, []).pipe(toArray()));
  const messages = steps.findLast((step) => step.messages).messages;
  const ours = plain(fold(first).messages);
  // Ours keeps the metadata of a result; so does theirs.
  assert.deepEqual(plain(messages), ours);
});
