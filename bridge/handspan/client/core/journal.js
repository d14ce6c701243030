/**
 * The page's journal of calls that are not settled: what has been received, what was started, and what
 * is done with the answer it will send again until somebody takes it. It is why a call is never run
 * twice in a document (P2): the server may repeat a `tool.call` after a reconnect, the journal knows it.
 *
 *     received -> started -> done -> (dropped)
 *
 * An entry may be done without having been started (an answer without a handler), and is dropped from
 * anywhere (settled without us). Pure: every move returns a new journal, or the same one when there is
 * no such entry.
 */

/** @import { Frame } from "./protocol.js" */

/**
 * @typedef {object} Entry
 * @property {string} callId
 * @property {number} attempt
 * @property {"received" | "started" | "done"} state
 * @property {AbortController} controller  of its handler
 * @property {Answer} [answer]  of one that is done
 *
 * @typedef {object} Answer  one of these
 * @property {any} [result]
 * @property {any} [content]  AG-UI parts
 * @property {{ message: string, code?: string, data?: any }} [error]
 *
 * @typedef {ReadonlyMap<string, Entry>} Journal
 */

/** @type {Journal} */
export const NO_CALLS = new Map();

/**
 * What a `tool.call` is to this document: `new` to be carried out, in place of an older attempt if
 * there is one; `known`, or older than what is; `done`, its answer wants to be sent again.
 * @param {Journal} journal
 * @param {Frame} call
 * @returns {"new" | "known" | "done"}
 */
export function judge(journal, { callId, attempt }) {
  const entry = journal.get(callId);
  if (!entry || attempt > entry.attempt) return "new";
  return attempt === entry.attempt && entry.state === "done" ? "done" : "known";
}

/**
 * @param {Journal} journal
 * @param {Frame} call
 * @param {AbortController} controller
 * @returns {Journal}
 */
export const receive = (journal, { callId, attempt }, controller) =>
  new Map(journal).set(callId, { callId, attempt, controller, state: "received" });

/**
 * @param {Journal} journal
 * @param {string} callId
 * @param {Answer} [answer]  none: it has only started
 * @returns {Journal}
 */
export function move(journal, callId, answer) {
  const entry = journal.get(callId);
  if (!entry) return journal;
  return new Map(journal).set(callId, { ...entry, state: answer ? "done" : "started", answer });
}

/**
 * Settled, whoever did it.
 * @param {Journal} journal
 * @param {string} callId
 * @param {number} attempt
 * @returns {Journal}
 */
export const drop = (journal, callId, attempt) =>
  journal.get(callId)?.attempt === attempt ? new Map([...journal].filter(([id]) => id !== callId)) : journal;

/**
 * As `hello.calls` tells it.
 * @param {Journal} journal
 */
export const told = (journal) =>
  Array.from(journal.values(), ({ callId, attempt, state }) => ({ callId, attempt, state }));
