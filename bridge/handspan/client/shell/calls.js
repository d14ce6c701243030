/**
 * Carries out the calls that this page gets, each once (P2), and answers each once (P7).
 *
 *     tool.call -> its turn in its thread -> leave to start -> handler -> a beat -> tool.result
 *
 * Handlers of one thread run one after another, in the order of their calls, unless the tool is
 * `readOnly` or `parallel`; a human who is asked in one thread holds up no other. A handler of a tool
 * that must not run twice starts only when the server has recorded that it may. A cancelled call frees
 * its turn at once, whatever its handler does (C067), and what it still returns is not sent.
 * The journal (`core/journal.js`) remembers; what is done stays in it until the server has taken it.
 */

import { drop, judge, move, NO_CALLS, receive } from "../core/journal.js";
import { ERROR_CHARS, ERROR_CODE, HandspanError, PROGRESS_MS } from "../core/protocol.js";
import { read, toText } from "../core/values.js";

/** @import { Answer, Journal } from "../core/journal.js" */
/** @import { Frame } from "../core/protocol.js" */
/** @import { CallInfo, Progress } from "./tools.js" */
/** @import { Host } from "./host.js" */

/** The results that are AG-UI parts; see `content` in handspan.js. */
export const contents = new WeakSet();

/** @typedef {ReturnType<typeof makeCalls>} Calls */

/** @param {Host} host */
export function makeCalls(host) {
  /** @type {Journal} */
  let journal = NO_CALLS;
  /** The last turn of each thread. @type {Map<string, Promise<void>>} */
  const turns = new Map();

  /** @param {Frame} call  a `tool.call` */
  function take(call) {
    const { callId, threadId } = call;
    const verdict = judge(journal, call);
    if (verdict === "done") send(callId);
    if (verdict !== "new") return;
    abort(callId, "superseded");
    const controller = new AbortController();
    journal = receive(journal, call, controller);
    const { tool } = host.tools.find(call.name) ?? {};
    const waits = tool && !tool.readOnly && !tool.parallel;
    const turn = Promise.resolve(waits && turns.get(threadId)).then(() => carryOut(call, controller.signal));
    if (waits) turns.set(threadId, turn);
  }

  /**
   * @param {string} callId
   * @param {string} reason
   */
  const abort = (callId, reason) =>
    journal.get(callId)?.controller.abort(new DOMException(reason, "AbortError"));

  /**
   * From its turn to its answer, or to its cancellation. Never rejects.
   * @param {Frame} call
   * @param {AbortSignal} signal
   */
  async function carryOut(call, signal) {
    const { callId, attempt } = call;
    const answer = await Promise.race([answerTo(call, signal), fired(signal)]);
    if (signal.aborted) return;
    journal = answer ? move(journal, callId, answer) : drop(journal, callId, attempt);
    send(callId);
  }

  /**
   * The answer; undefined when the handler must not start.
   * @param {Frame} call
   * @param {AbortSignal} signal
   * @returns {Promise<Answer | undefined>}
   */
  async function answerTo(call, signal) {
    const find = () => host.tools.find(call.name, call.revision);
    const { tool } = find() ?? {};
    if (tool && !tool.readOnly && !tool.idempotent && !(await mayStart(call))) return undefined;
    const { handler } = find() ?? {};
    if (signal.aborted) return undefined;
    if (!handler) return failure({ code: "unavailable", message: "no tool" });
    journal = move(journal, call.callId);
    return outcome(() => handler(call.args, about(call, signal)));
  }

  /**
   * The server's leave to start (protocol 3); anything but "go" forbids it.
   * @param {Frame} call
   * @returns {Promise<boolean>}
   */
  const mayStart = ({ callId, attempt }) =>
    host.commands.send({ type: "tool.started", callId, attempt }).then(
      ({ status }) => status === "go",
      () => false,
    );

  /**
   * What a handler comes to, as what a `tool.result` carries; given a beat for what it did to the page.
   * @param {() => unknown} handle
   * @returns {Promise<Answer>}
   */
  async function outcome(handle) {
    let value;
    try {
      try {
        value = await handle();
      } finally {
        if (host.settle) await host.settle();
      }
    } catch (error) {
      return failure(error);
    }
    const text = toText(value, host.limits.resultBytes);
    if (!text) return failure(new HandspanError({ code: "result_too_large" }));
    return { [contents.has(Object(value)) ? "content" : "result"]: JSON.parse(text) };
  }

  /**
   * @param {Frame} call
   * @param {AbortSignal} signal
   * @returns {CallInfo}
   */
  function about(call, signal) {
    const { callId, attempt } = call;
    const progress = throttled((said) => {
      if (!signal.aborted && journal.get(callId)?.state === "started")
        host.notify({ ...said, type: "tool.progress", callId, attempt });
    });
    return /** @type {any} */ ({ toolName: call.name, ...call, signal, progress });
  }

  /**
   * Sends what is done, with what it changed about the page: tools first (C097), then the context.
   * Without a socket nothing: the next hello will announce it.
   * @param {string} callId
   */
  async function send(callId) {
    const { answer, attempt = 0 } = journal.get(callId) ?? {};
    if (!answer || !host.socket.ready()) return;
    host.tools.flush();
    const result = { type: "tool.result", callId, attempt, ...answer, context: host.context.fresh() };
    try {
      if (await host.commands.send(result, false)) journal = drop(journal, callId, attempt);
    } catch (error) {
      if (journal.get(callId)?.answer === answer) refused(callId, attempt, answer, error);
    }
  }

  /**
   * The server does not take the answer. Unless it only wants to be left alone for a while, it is told
   * so instead, once: a call must not wait for its timeout because its result has a wrong part (P1).
   * @param {string} callId
   * @param {number} attempt
   * @param {Answer} answer
   * @param {any} error
   */
  function refused(callId, attempt, answer, error) {
    if (error.code === "rate_limited") return void setTimeout(send, 1_000, callId);
    journal = answer.error ? drop(journal, callId, attempt) : move(journal, callId, failure(error));
    send(callId);
  }

  return {
    take,

    /** @param {Frame} cancel  a `tool.cancel` */
    cancel({ callId, attempt, reason }) {
      if (journal.get(callId)?.attempt === attempt) abort(callId, reason);
      journal = drop(journal, callId, attempt);
    },

    /**
     * Nothing of this is ours any more.
     * @param {string} reason
     */
    end(reason) {
      for (const callId of journal.keys()) abort(callId, reason);
      journal = NO_CALLS;
    },

    journal: () => journal,

    /**
     * What another document of this tab has done, and nobody has taken, is ours to answer.
     * @param {any} entry  see `Done` in tab.js
     */
    restore(entry) {
      const { callId, answer } = entry;
      if (judge(journal, entry) !== "new") return;
      abort(callId, "superseded");
      journal = move(receive(journal, entry, new AbortController()), callId, answer);
    },

    /** In a session that goes on: the answers that the hello announced. */
    resend: () => [...journal.keys()].forEach(send),
  };
}

/**
 * @param {AbortSignal} signal
 * @returns {Promise<any>}
 */
const fired = (signal) => new Promise((go) => signal.addEventListener("abort", go));

/**
 * What was thrown, for the model: a message that is never empty, a code if it has a good one.
 * @param {any} thrown
 * @returns {Answer}
 */
function failure(thrown) {
  const code = read(() => thrown.code);
  const message = read(() => String(thrown?.message || thrown?.name || thrown || "").slice(0, ERROR_CHARS));
  const data = read(() => thrown?.data);
  const good = typeof code === "string" && ERROR_CODE.test(code);
  return { error: { message: message || "the tool failed", data, ...(good && { code }) } };
}

/**
 * The first at once, then at most one in PROGRESS_MS, the last wins. A number, a number of a total,
 * a text; or an object of these.
 * @param {(said: Progress) => void} tell
 * @returns {CallInfo["progress"]}
 */
function throttled(tell) {
  let resting = false;
  /** @type {Progress | undefined} */
  let next;
  const flush = () => {
    resting = !!next;
    if (next) setTimeout(flush, PROGRESS_MS, tell(next));
    next = undefined;
  };
  return (progress, total, message) => {
    next = typeof progress === "object" ? progress : { progress, total, message };
    if (!resting) flush();
  };
}
