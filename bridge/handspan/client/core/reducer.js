/**
 * What a page knows of one thread, as a pure fold: a snapshot begins it, events carry it on. The law,
 * and the whole reason for this module: State(snapshot) + later events == State(all events), exactly.
 * So nothing is kept here that a snapshot could not tell: a call is its last `handspan.call` value, and
 * its arguments, as far as they have come, stand in the messages.
 *
 * Messages and state fold as on the server; `protocol/vectors/fold.jsonl` is the truth both are held
 * to. One row a type of event; what has no row changes nothing. Nothing is changed in place: what an
 * event leaves alone is the same object afterwards. What an event names is looked for from the end,
 * where a streaming answer always is. Knows no socket, no run handle and no subscriber.
 */

import { patch } from "./patch.js";

/** @import { AgUiEvent, Frame, Json, Message, ToolCall } from "./protocol.js" */

/**
 * @typedef {{ runId: string, depth: number }} Run  the run that is going on
 *
 * @typedef {object} LastRun  how the latest finished run ended
 * @property {string} runId
 * @property {{ type: string }} [outcome]
 * @property {{ reason: string, depth: number, output?: Json }} [result]
 * @property {{ message: string, code?: string }} [error]
 *
 * @typedef {object} Call  a call of the run that is going on, with the newest that was said about it
 * @property {string} callId
 * @property {string} name
 * @property {"proposed" | "waiting_approval" | "dispatched" | "started" | "progress" | "settled"} state
 * @property {number} [progress]
 * @property {number} [total]
 * @property {string} [message]  of the progress
 * @property {string} [outcome]  once settled
 * @property {string} [code]
 * @property {number} [attempt]  where the server tells it
 *
 * @typedef {object} ThreadState
 * @property {string} [epoch]  none: nothing has come yet
 * @property {number} [offset]
 * @property {readonly Message[]} messages
 * @property {Json} state
 * @property {Run | null} run
 * @property {LastRun | null} lastRun
 * @property {readonly Call[]} calls
 * @property {readonly string[]} open  ids of the texts, reasonings and calls that are under way
 * @property {readonly string[]} suggestions  what to say next; of the last run, until another begins
 *
 * @typedef {readonly Message[]} Messages
 */

/** @type {ThreadState} */
export const EMPTY = {
  messages: [],
  state: {},
  run: null,
  lastRun: null,
  calls: [],
  open: [],
  suggestions: [],
};

/**
 * What a `snapshot` frame says.
 * @param {Frame} frame
 * @returns {ThreadState}
 */
export function fromSnapshot({ type: _, threadId: __, ...frame }) {
  const { run, open, calls } = frame;
  return /** @type {any} */ ({
    ...frame,
    run: run && { runId: run.runId, depth: run.depth },
    calls: calls.map(proposed),
    open: [...open.messages, ...open.reasoning, ...open.calls],
  });
}

/**
 * Whether an `events` frame follows on what is known; if not, its events must not be folded in.
 * @param {ThreadState} state
 * @param {Frame} frame
 */
export const follows = ({ epoch, offset = 0 }, frame) =>
  !epoch || (epoch === frame.epoch && frame.offset > offset);

/**
 * The state after one event. The position is the frame's, and moved when that is through.
 * @param {ThreadState} state
 * @param {AgUiEvent} event
 * @returns {ThreadState}
 */
export const apply = (state, event) => ({ ...state, ...FOLDS[event.type]?.(state, event) });

/** @type {Record<string, (state: ThreadState, event: any) => Partial<ThreadState> | false | null>} */
const FOLDS = {
  // @ts-ignore: names of prototypes are no events
  __proto__: null,

  RUN_STARTED: (state, event) => ({
    messages: (event.input?.messages ?? []).reduce(append, state.messages),
    run: { runId: event.runId, depth: 0 },
    calls: [],
    suggestions: [],
  }),
  RUN_FINISHED: (_, { runId, outcome, result }) => over({ runId, outcome, result }),
  RUN_ERROR: ({ run }, { message, code }) => over({ runId: run?.runId, error: { message, code } }),
  STEP_STARTED: ({ run }, event) =>
    run && !event.subagentRunId && { run: { ...run, depth: Number(event.stepName.slice(5)) } },

  TEXT_MESSAGE_START: startText,
  TEXT_MESSAGE_CONTENT: say,
  TEXT_MESSAGE_END: endText,
  REASONING_MESSAGE_START: startText,
  REASONING_MESSAGE_CONTENT: say,
  REASONING_MESSAGE_END: endText,
  REASONING_ENCRYPTED_VALUE(state, event) {
    const set = (/** @type {any} */ it) => ({ ...it, encryptedValue: event.encryptedValue });
    return (event.subtype === "message" ? edit : editCall)(state, event.entityId, set);
  },

  TOOL_CALL_START(state, event) {
    const { toolCallId: id, toolCallName: name } = event;
    const call = { id, type: /** @type {const} */ ("function"), function: { name, arguments: "" } };
    const home = born({ ...event, messageId: event.parentMessageId ?? id }, "assistant");
    return {
      ...edit({ messages: append(state.messages, home) }, home.id, (it) => ({
        ...it,
        toolCalls: [...(it.toolCalls ?? []), call],
      })),
      calls: [...state.calls, proposed({ callId: id, name })],
      open: [...state.open, id],
    };
  },
  TOOL_CALL_ARGS: (state, event) =>
    state.open.includes(event.toolCallId) &&
    editCall(state, event.toolCallId, (call) => ({
      ...call,
      function: { ...call.function, arguments: call.function.arguments + event.delta },
    })),
  TOOL_CALL_END: (state, event) => end(state, event.toolCallId),
  TOOL_CALL_RESULT(state, event) {
    const { toolCallId, content, metadata } = event;
    const message = born(event, "tool", { toolCallId, content, ...(metadata && { metadata }) });
    const { messages } = state;
    let at = messages.findLastIndex(holding(toolCallId)) + 1 || messages.length;
    while (messages[at]?.role === "tool") at++;
    return !has(messages, message) && { messages: messages.toSpliced(at, 0, message) };
  },

  ACTIVITY_SNAPSHOT(state, event) {
    const { activityType, content } = event;
    const message = born(event, "activity", { activityType, content });
    const replaced = event.replace !== false && edit(state, message.id, () => message);
    return { messages: append((replaced || state).messages, message) };
  },
  ACTIVITY_DELTA: (state, event) =>
    edit(state, event.messageId, (it) => ({ ...it, content: patched(it.content, event.patch) })),
  STATE_SNAPSHOT: (_, event) => ({ state: event.snapshot }),
  STATE_DELTA: (state, event) => ({ state: patched(state.state, event.delta) }),
  MESSAGES_SNAPSHOT: (_, event) => ({ messages: event.messages, open: [] }),

  CUSTOM: ({ run, lastRun, calls }, { name, value }) =>
    name === "handspan.call"
      ? { calls: calls.map((it) => (it.callId === value.callId ? { name: it.name, ...value } : it)) }
      : name === "handspan.suggestions" &&
        !run &&
        lastRun?.runId === value.runId && { suggestions: value.items },
};

/**
 * @param {any} lastRun
 * @returns {Partial<ThreadState>}
 */
const over = (lastRun) => ({ lastRun, run: null, calls: [] });

/**
 * @param {ThreadState} state
 * @param {string} id
 */
const end = (state, id) => ({ open: state.open.filter((other) => other !== id) });

/**
 * @param {Messages} messages
 * @param {Message} message
 */
const has = (messages, message) => messages.some((other) => other.id === message.id);

/**
 * Of one id there is one message: what would make a second is passed over.
 * @param {Messages} messages
 * @param {Message} message
 */
const append = (messages, message) => (has(messages, message) ? messages : [...messages, message]);

/**
 * With the last message that fits changed; as it was when there is none.
 * @param {Pick<ThreadState, "messages">} state
 * @param {string | ((message: Message) => boolean | undefined)} which  an id, or what fits
 * @param {(message: Message) => Message} change
 */
function edit({ messages }, which, change) {
  const at = messages.findLastIndex(typeof which === "string" ? (message) => message.id === which : which);
  return { messages: at < 0 ? messages : messages.toSpliced(at, 1, change(messages[at])) };
}

/**
 * @param {string} callId
 * @returns {(message: Message) => boolean | undefined} whether it holds the call
 */
const holding = (callId) => (message) => message.toolCalls?.some((call) => call.id === callId);

/**
 * @param {ThreadState} state
 * @param {string} callId
 * @param {(call: ToolCall) => ToolCall} change
 */
const editCall = (state, callId, change) =>
  edit(state, holding(callId), (it) => ({
    ...it,
    toolCalls: it.toolCalls?.map((call) => (call.id === callId ? change(call) : call)),
  }));

/**
 * A message that an event makes.
 * @param {any} event
 * @param {string} role
 * @param {object} [fields]
 * @returns {Message}
 */
const born = ({ messageId: id, subagentRunId }, role, fields) => ({
  id,
  role,
  ...fields,
  ...(subagentRunId && { subagentRunId }),
});

/**
 * @param {ThreadState} state
 * @param {any} event
 */
function startText(state, event) {
  const role = /^R/.test(event.type) ? "reasoning" : (event.role ?? "assistant");
  const message = born(event, role, { content: "" });
  return (
    !has(state.messages, message) && {
      messages: [...state.messages, message],
      open: [...state.open, message.id],
    }
  );
}

/**
 * @param {ThreadState} state
 * @param {any} event
 */
function say(state, event) {
  return (
    state.open.includes(event.messageId) &&
    edit(state, event.messageId, (it) => ({ ...it, content: it.content + event.delta }))
  );
}

/**
 * An assistant's text that ends empty was none (C058), unless calls stand in it.
 * @param {ThreadState} state
 * @param {any} event
 */
function endText(state, event) {
  const { messageId } = event;
  return (
    state.open.includes(messageId) && {
      messages: state.messages.filter(
        (it) => it.id !== messageId || it.role !== "assistant" || it.content || it.toolCalls,
      ),
      ...end(state, messageId),
    }
  );
}

/**
 * @param {{ callId: string, name: string, last?: object }} call  `last`: what was said of it since
 * @returns {Call}
 */
const proposed = ({ callId, name, last }) => ({ callId, name, state: "proposed", ...last });

/**
 * The document with the patch applied; itself when the patch does not fit.
 * @param {any} document
 * @param {any} operations
 */
function patched(document, operations) {
  try {
    return patch(document, operations);
  } catch {
    return document;
  }
}
