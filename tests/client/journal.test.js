import assert from "node:assert/strict";
import test from "node:test";
import { drop, judge, move, NO_CALLS, receive, told } from "../../bridge/handspan/client/core/journal.js";

const call = (attempt, callId = "c1") => ({ type: "tool.call", callId, attempt });
const received = receive(NO_CALLS, call(2), new AbortController());
const started = move(received, "c1");
const done = move(started, "c1", { result: 1 });

/** Every state of an entry of attempt 2, and what a tool.call is to it. */
const VERDICTS = [
  ["nothing", NO_CALLS, ["new", "new", "new"]],
  ["received", received, ["known", "known", "new"]],
  ["started", started, ["known", "known", "new"]],
  ["done", done, ["known", "done", "new"]],
];

for (const [state, journal, verdicts] of VERDICTS)
  test(`P2: in a document that has ${state}, attempts 1, 2 and 3 are ${verdicts.join(", ")}`, () =>
    assert.deepEqual([1, 2, 3].map((attempt) => judge(journal, call(attempt))), verdicts));

test("P9: the journal tells state and attempt, and never a result", () => {
  assert.deepEqual(told(received), [{ callId: "c1", attempt: 2, state: "received" }]);
  assert.deepEqual(told(started), [{ callId: "c1", attempt: 2, state: "started" }]);
  assert.deepEqual(told(done), [{ callId: "c1", attempt: 2, state: "done" }]);
});

test("P2: an answer may come without a start, and stays with its entry", () => {
  const answered = move(received, "c1", { error: { message: "no" } });
  assert.equal(answered.get("c1").state, "done");
  assert.deepEqual(answered.get("c1").answer, { error: { message: "no" } });
});

test("P7: only the same attempt is dropped, and moves of what is not there change nothing", () => {
  assert.equal(drop(done, "c1", 1), done);
  assert.equal(drop(done, "c2", 2), done);
  assert.equal(drop(done, "c1", 2).size, 0);
  assert.equal(move(done, "c2"), done);
  assert.equal(received.get("c1").state, "received", "earlier journals stay as they were");
});

test("P13: names of prototypes are ordinary ids", () => {
  assert.equal(judge(NO_CALLS, call(1, "constructor")), "new");
  assert.equal(judge(receive(NO_CALLS, call(1, "__proto__"), new AbortController()), call(1, "__proto__")), "known");
});
