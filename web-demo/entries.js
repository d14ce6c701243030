/**
 * The conversation as a list of things to show, in order: what the bridge knows of the thread (its view)
 * becomes entries with keys, so that drawing can keep what did not change. Pure: no element, no bridge.
 *
 * A call is told in three places, and the newest counts: its message has the name and the arguments, the
 * view's `calls` how far it is while its run goes on, the tool message what came of it.
 */

/** @import { View } from "/client/shell/conversation.js" */
/** @import { Message, ToolCall } from "/client/core/protocol.js" */
/** @import { Call, LastRun } from "/client/core/reducer.js" */

/**
 * @typedef {"preparing" | "waiting" | "asking" | "allowed" | "running"
 *   | "done" | "failed" | "declined" | "stopped" | "unclear"} CallState
 *
 * @typedef {object} TextEntry  what somebody said
 * @property {"user" | "assistant" | "reasoning" | "speaker"} kind  speaker: the name of who speaks from here on
 * @property {string} key
 * @property {string} text
 * @property {boolean} whole  nothing more comes
 *
 * @typedef {object} CallEntry
 * @property {"call"} kind
 * @property {string} key
 * @property {string} callId
 * @property {string} name
 * @property {string} args  the model's text, as far as it has come
 * @property {CallState} state
 * @property {Call} [told]  how far it is
 * @property {string} [result]  the text of it, once there is one
 *
 * @typedef {object} NoteEntry  a quiet line of the page's own
 * @property {"note"} kind
 * @property {string} key
 * @property {string} text
 * @property {"end" | "problem"} tone
 *
 * @typedef {{ after?: string, note: NoteEntry }} Placed  stands behind the message with that id; none: first
 * @typedef {TextEntry | CallEntry | NoteEntry} Entry
 */

/** @type {Record<string, CallState>} */
const OUTCOMES = { ok: "done", error: "failed", denied: "declined", aborted: "stopped", unknown: "unclear" };

/** @type {Record<Call["state"], CallState>} */
const STATES = {
  proposed: "waiting",
  waiting_approval: "asking",
  dispatched: "running",
  started: "running",
  progress: "running",
  settled: "done",
};

/** @type {Record<string, string>} */
const ENDS = {
  completed: "completed",
  no_follow_up: "done, without a word from the agent",
  aborted: "stopped",
  max_depth: "ended: it went on for too long",
  repeating: "ended: it repeated itself",
  truncated: "ended: the answer was cut off",
  stop_condition: "ended by a stop condition",
};

/**
 * @param {View} view
 * @param {Iterable<Placed>} notes  those in the same place in order
 * @param {(callId: string) => CallState} leaveOf  how it stands with a call that needs leave
 * @returns {Entry[]}
 */
export function entriesOf({ messages, calls, open }, notes, leaveOf) {
  const told = new Map(calls.map((call) => [call.callId, call]));
  const results = new Map(messages.filter((it) => it.role === "tool").map((it) => [it.toolCallId, it]));
  const there = new Set(messages.map(({ id }) => id));
  const placed = Map.groupBy(notes, ({ after = "" }) => (there.has(after) ? after : ""));
  const behind = (/** @type {string} */ id) => (placed.get(id) ?? []).map(({ note }) => note);
  const stateOf = (/** @type {Call} */ { callId, state }) =>
    state === "waiting_approval" ? leaveOf(callId) : STATES[state];

  /** @param {ToolCall} call @returns {CallEntry} */
  function shown(call) {
    const now = told.get(call.id);
    const state = open.includes(call.id) ? "preparing" : now ? stateOf(now) : "waiting";
    return called(call, state, now, results.get(call.id));
  }
  return [
    ...behind("").filter(({ key }) => !isEnd(key)),
    ...messages.flatMap((message) => [
      ...said(message, open),
      ...(message.toolCalls ?? []).map(shown),
      ...behind(message.id),
    ]),
  ];
}

/** Whether it tells how a run ended; nothing is left of that when the run's messages are gone. */
const isEnd = (/** @type {string} */ key) => key.startsWith("end ");

/** @type {(kind: string) => kind is TextEntry["kind"]} */
const isText = (kind) => ["user", "assistant", "reasoning", "speaker"].includes(kind);

/**
 * @param {Message} message
 * @param {readonly string[]} open
 * @returns {TextEntry[]}
 */
function said({ id, role, content, activityType }, open) {
  const kind = role === "activity" && activityType === "speaker" ? activityType : role;
  const text = textOf(kind === "speaker" ? content?.name : content);
  return text && isText(kind) ? [{ kind, key: id, text, whole: !open.includes(id) }] : [];
}

/**
 * @param {ToolCall} call
 * @param {CallState} underWay  how far it is, if nothing has come of it yet
 * @param {Call | undefined} told
 * @param {Message | undefined} result
 * @returns {CallEntry}
 */
function called({ id, function: { name, arguments: args } }, underWay, told, result) {
  const outcome = result?.metadata?.handspan?.outcome ?? told?.outcome;
  const state = OUTCOMES[outcome] ?? underWay;
  const text = result && textOf(result.content);
  return { kind: "call", key: `call ${id}`, callId: id, name, args, state, told, result: text };
}

/**
 * How a run ended, as a quiet line.
 * @param {LastRun} end  without result and error: nobody has told how
 * @returns {NoteEntry}
 */
export function endNote({ runId, result, error }) {
  const { reason = "ended" } = result ?? {};
  const text = error ? `failed: ${error.message} (${error.code})` : (ENDS[reason] ?? reason);
  return { kind: "note", key: `end ${runId}`, text, tone: error ? "problem" : "end" };
}

/**
 * The ends that a view tells, each with the message behind which it belongs. A view knows the last run
 * only: of one that went on a moment ago and was followed by others since, it tells that it ended, not how.
 * @param {View | undefined} before  a moment ago
 * @param {View} view
 * @returns {{ end: LastRun, after?: string }[]}
 */
export function endsBetween(before, view) {
  const { messages, run, lastRun } = view;
  const known = before?.messages.length ?? 0;
  const past = before?.run?.runId;
  const isUnseen = past && past !== run?.runId && past !== lastRun?.runId && messages.length >= known;
  const isNew = lastRun && lastRun.runId !== before?.lastRun?.runId;
  const ahead = (/** @type {number} */ at) => (at < 0 ? messages.at(-1) : messages[at - 1])?.id;
  const next = messages.findIndex(({ role }, at) => at >= known && role === "user");
  return [
    ...(isUnseen ? [{ end: { runId: past }, after: ahead(next) }] : []),
    ...(isNew ? [{ end: lastRun, after: ahead(run ? beginOf(view, known) : -1) }] : []),
  ];
}

/**
 * Where the run that is going on begins, if it does among the messages that are new; else -1.
 * @param {View} view
 * @param {number} known  how many messages there were a moment ago
 */
function beginOf({ messages, calls }, known) {
  const asked = messages.findLastIndex(({ role }, at) => at >= known && role === "user");
  const isFirst = (/** @type {Message} */ { toolCalls }) => toolCalls?.some(({ id }) => id === calls[0]?.callId);
  return asked < 0 ? messages.findIndex((message, at) => at >= known && isFirst(message)) : asked;
}

/**
 * The words in a message's content, which is a text or AG-UI parts.
 * @param {any} content
 * @returns {string}
 */
function textOf(content) {
  if (!Array.isArray(content)) return typeof content === "string" ? content : "";
  return content.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join(" ");
}
