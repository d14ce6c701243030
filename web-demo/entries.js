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
 * @typedef {"preparing" | "waiting" | "asking" | "running"
 *   | "done" | "failed" | "declined" | "stopped" | "unclear"} CallState
 *
 * @typedef {object} TextEntry  what somebody said
 * @property {"user" | "assistant" | "reasoning"} kind
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
 * @typedef {{ at: number, note: NoteEntry }} Placed  stands before the message with that index
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
 * @param {readonly Placed[]} notes  in order
 * @returns {Entry[]}
 */
export function entriesOf({ messages, calls, open }, notes) {
  const told = new Map(calls.map((call) => [call.callId, call]));
  const results = new Map(messages.filter((it) => it.role === "tool").map((it) => [it.toolCallId, it]));
  const from = (/** @type {number} */ at, to = Infinity) =>
    notes.filter((placed) => placed.at >= at && placed.at < to).map(({ note }) => note);

  /** @param {Message} message @returns {Entry[]} */
  const shown = (message) => [
    ...said(message, open),
    ...(message.toolCalls ?? []).map((call) =>
      called(call, told.get(call.id), results.get(call.id), open.includes(call.id))),
  ];
  return [
    ...messages.flatMap((message, at) => [...from(at, at + 1), ...shown(message)]),
    ...from(messages.length),
  ];
}

/**
 * @param {Message} message
 * @param {readonly string[]} open
 * @returns {TextEntry[]}
 */
function said({ id, role, content }, open) {
  const text = textOf(content);
  if (!text || (role !== "user" && role !== "assistant" && role !== "reasoning")) return [];
  return [{ kind: role, key: id, text, whole: !open.includes(id) }];
}

/**
 * @param {ToolCall} call
 * @param {Call | undefined} told
 * @param {Message | undefined} result
 * @param {boolean} streaming  its arguments are still coming
 * @returns {CallEntry}
 */
function called({ id, function: { name, arguments: args } }, told, result, streaming) {
  const outcome = result?.metadata?.handspan?.outcome ?? told?.outcome;
  const state = OUTCOMES[outcome] ?? (streaming ? "preparing" : told ? STATES[told.state] : "waiting");
  const text = result && textOf(result.content);
  return { kind: "call", key: `call ${id}`, callId: id, name, args, state, told, result: text };
}

/**
 * How a run ended, as a quiet line.
 * @param {LastRun} lastRun
 * @returns {NoteEntry}
 */
export function endNote({ runId, result, error }) {
  const { reason = "ended" } = result ?? {};
  const text = error ? `failed: ${error.message} (${error.code})` : (ENDS[reason] ?? reason);
  return { kind: "note", key: `end ${runId}`, text, tone: error ? "problem" : "end" };
}

/**
 * Where the end of the last run belongs. When the next one has begun in the same breath, its first
 * message stands behind it: that is among those which were not there a moment ago.
 * @param {View} view
 * @param {number} known  how many messages there were a moment ago
 */
export function placeOfEnd({ messages, run, calls }, known) {
  if (!run) return messages.length;
  const begins = (/** @type {Message} */ { role, toolCalls }) =>
    role === "user" || toolCalls?.some(({ id }) => id === calls[0]?.callId);
  const at = messages.findIndex((message, at) => at >= known && begins(message));
  return at < 0 ? messages.length : at;
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
