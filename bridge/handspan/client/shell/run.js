/**
 * One run as the program that started it holds it: its events, its end, its stop button. The handle is
 * the thread's side of it and never reaches the program.
 */

/** @import { AgUiEvent, HandspanError, Json } from "../core/protocol.js" */

/**
 * @typedef {object} RunEnd
 * @property {string} reason  "completed", "aborted", ... (protocol 1), or "lost": the server no longer
 *   knows it
 * @property {number} depth
 * @property {Json} [output]
 *
 * @typedef {object} RunExtras
 * @property {string} id  chosen here, known at once
 * @property {Promise<RunEnd>} finished  rejects with a `code` when the run failed, or was refused. When
 *   nobody has looked at it, nor reads the events, `onError` hears of it instead
 * @property {() => Promise<boolean>} abort  false: it was over
 *
 * @typedef {AsyncIterable<AgUiEvent> & RunExtras} Run  its events, for any number of readers, each from
 *   the start. A reader ends as `finished` does.
 *
 * @typedef {object} RunHandle
 * @property {Run} run
 * @property {any} [message]  the user's, with its id
 * @property {boolean} [accepted]  its command was answered
 * @property {string} [queued]  it waits for another run: the session that asked
 * @property {(event: AgUiEvent) => void} push
 * @property {(end: RunEnd | HandspanError) => void} end
 */

/**
 * @param {string} id
 * @param {() => Promise<boolean>} abort
 * @param {(error: HandspanError) => void} problem
 * @returns {RunHandle}
 */
export function makeRun(id, abort, problem) {
  /** @type {AgUiEvent[]} */
  const events = [];
  /** Readers who have read everything. @type {((_?: unknown) => void)[]} */
  const waiting = [];
  /** @type {boolean | undefined} */
  let over;
  /** Somebody waits for the end. */
  let heard = false;
  /** @type {(end: RunEnd) => void} */
  let resolve;
  /** @type {(error: HandspanError) => void} */
  let reject;
  /** @type {Promise<RunEnd>} */
  const finished = new Promise((yes, no) => ([resolve, reject] = [yes, no]));
  finished.catch(() => {});

  const wake = () => waiting.splice(0).forEach((go) => go());
  async function* read() {
    heard = true;
    for (let at = 0; ; ) {
      if (at < events.length) yield events[at++];
      else if (over) return finished;
      else await new Promise((go) => waiting.push(go));
    }
  }
  return {
    run: {
      id,
      get finished() {
        heard = true;
        return finished;
      },
      [Symbol.asyncIterator]: read,
      abort,
    },
    push(event) {
      events.push(event);
      wake();
    },
    end(end) {
      over = true;
      if (end instanceof Error) {
        if (!heard) problem(end);
        reject(end);
      } else resolve(end);
      wake();
    },
  };
}
