/**
 * What a subscriber sees beyond the folded state: the arguments of each call as far as they have come,
 * and the runs that were asked for here before the server has said a word of them. It lies over the
 * state and is never part of it: State(snapshot) + events stays State(all), and what it shows goes when
 * the state has the real thing, or when the run is over or refused, in the same view.
 *
 *     asked            the user's message, and an empty answer     both `pending`
 *     RUN_STARTED      the real message (of the same id), and the empty answer
 *     the first word   the real message, the real answer
 *
 * Only a page that renders needs this, so it is loaded for the first subscriber. It may come late, or
 * miss what a snapshot stands for: whatever it noted is checked against the state. Above sits
 * `shell/conversation.js`.
 */

import { makePartial } from "./partial.js";

/** @import { AgUiEvent, Json, Message } from "./protocol.js" */
/** @import { Partial } from "./partial.js" */
/** @import { Call, ThreadState } from "./reducer.js" */

/**
 * @typedef {object} Asked  a run of this page that is not over
 * @property {{ id: string }} run
 * @property {any} [message]  the user's
 * @property {Message[]} [drafts]  what stands for it until it is seen
 *
 * @typedef {Call & { args?: Json }} CallView  `args`: as much of them as has come, as the model wrote
 *   them; only ever grows
 *
 * @typedef {object} Followed  a call whose arguments come
 * @property {Partial} partial
 * @property {Call} [call]
 * @property {CallView} [shown]  `call` with its arguments
 *
 * @typedef {ReturnType<typeof overlay>} Overlay
 */

/** @type {any} */
const NOTHING = {};
/** @type {readonly string[]} */
const NO_SUGGESTIONS = [];

/** @param {ReadonlyMap<string, Asked>} runs  in the order they were asked for; live */
export function overlay(runs) {
  /** By callId. @type {Map<string, Followed>} */
  let followed = new Map();
  /** The run that is going on. @type {string | undefined} */
  let runId;
  /** The last message when it began: nothing of it has come as long as none follows. @type {string | undefined} */
  let last;
  /** @type {readonly CallView[]} */
  let calls = [];
  /** @type {readonly Message[]} */
  let messages = [];

  /** @param {ThreadState} state */
  function begin({ run, messages }) {
    runId = run?.runId;
    last = messages.at(-1)?.id;
  }

  /**
   * What is to be seen of an asked run besides what the state has.
   * @param {ThreadState} state
   * @param {Asked} asked
   */
  function ahead({ messages, lastRun }, asked) {
    const { id } = asked.run;
    const [answer, ...message] = (asked.drafts ??= draft(asked));
    if (id === runId) return messages.at(-1)?.id === last ? [answer] : [];
    const isOver = id === lastRun?.runId || messages.some((it) => it.id === asked.message?.id);
    return isOver ? [] : [...message, answer];
  }

  /**
   * @param {ThreadState} state
   * @param {Call} call
   * @returns {Followed}
   */
  function follow({ messages, open }, call) {
    const { callId } = call;
    const text = textOf(messages, callId);
    const one = followed.get(callId) ?? { partial: makePartial() };
    if (one.partial.length !== text.length) {
      one.partial = makePartial();
      one.partial.feed(text);
    }
    if (!open.includes(callId)) one.partial.end();
    const args = one.partial.value ?? NOTHING;
    if (one.call !== call || one.shown?.args !== args) one.shown = { ...(one.call = call), args };
    return one;
  }

  return {
    /**
     * An event has been folded in; `state` is the one after it.
     * @param {ThreadState} state
     * @param {AgUiEvent} event
     */
    see(state, { type, toolCallId, delta }) {
      if (type === "RUN_STARTED" || type === "MESSAGES_SNAPSHOT") begin(state);
      if (delta) followed.get(toolCallId)?.partial.feed(delta); // only TOOL_CALL_ARGS has both
    },

    /**
     * The parts of a view that differ from the state's. Those that did not change are the same objects.
     * @param {ThreadState} state
     */
    over(state) {
      if (runId !== state.run?.runId) {
        begin(state); // was missed: what follows the user's message is the answer
        last = state.messages.findLast((it) => it.role === "user" && !it.subagentRunId)?.id;
      }
      const begun = runs.get(runId ?? ""); // goes first, though another may have been asked before
      const asked = begun ? [begun, ...runs.values()] : [...runs.values()];
      const pending = new Set(asked.flatMap((one) => ahead(state, one)));
      followed = new Map(state.calls.map((call) => [call.callId, follow(state, call)]));
      calls = same(calls, [...followed.values()].map(({ shown }) => /** @type {CallView} */ (shown)));
      messages = pending.size ? same(messages, [...state.messages, ...pending]) : state.messages;
      return { calls, messages, suggestions: runs.size ? NO_SUGGESTIONS : state.suggestions };
    },
  };
}

/**
 * @param {Asked} asked
 * @returns {Message[]} the answer, then the message if there is one
 */
function draft({ run, message }) {
  const pending = true;
  const answer = { id: `pending:${run.id}`, role: "assistant", content: "", pending };
  return message ? [answer, { ...message, pending }] : [answer];
}

/**
 * @param {readonly Message[]} messages
 * @param {string} callId
 */
function textOf(messages, callId) {
  for (let at = messages.length - 1; at >= 0; at--)
    for (const { id, function: called } of messages[at].toolCalls ?? [])
      if (id === callId) return called.arguments;
  return "";
}

/**
 * @template T
 * @param {readonly T[]} before
 * @param {readonly T[]} now
 * @returns {readonly T[]} `before` when there is no difference
 */
const same = (before, now) =>
  before.length === now.length && now.every((one, at) => one === before[at]) ? before : now;
