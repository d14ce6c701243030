/**
 * The page as one party: one session, one socket, its tools, its context, its calls, its threads.
 * Puts the parts together and brings each frame to whom it concerns; decides nothing by itself.
 */

import { told } from "../core/journal.js";
import { CLIENT, HandspanError, LIMITS, PROTOCOL } from "../core/protocol.js";
import { toText } from "../core/values.js";
import { makeApprovals } from "./approvals.js";
import { makeCalls } from "./calls.js";
import { makeCommands } from "./commands.js";
import { makeContext } from "./context.js";
import { isVisible, macrotask, randomId } from "./page.js";
import { makeSocket } from "./socket.js";
import { makeTools } from "./tools.js";

/** @import { Frame } from "../core/protocol.js" */

/**
 * @typedef {object} Options
 * @property {string} [url]  of the server; the page's own origin
 * @property {string} [threadId]  a random one, kept for the tab
 * @property {string | (() => string | Promise<string>)} [token]  a function is asked at every connect
 * @property {string} [agent]  who answers when a run does not say
 * @property {false | (() => unknown)} [settle]  what to wait for between a handler's end and its result;
 *   by default a beat, so that a framework commits and registers
 * @property {typeof WebSocket} [WebSocket]
 * @property {(attempt: number) => number} [backoff]  milliseconds before attempt 0, 1, ... of a reconnect
 *
 * @typedef {object} Member  a conversation, as the host knows it
 * @property {any} face  as the program knows it
 * @property {() => object} cursor
 * @property {(frame: Frame) => void} take  a `snapshot` or `events`
 * @property {(error: HandspanError) => void} fail
 * @property {() => void} changed
 *
 * @typedef {object} Host  what the parts share, and how they reach one another
 * @property {import("./socket.js").Status} status
 * @property {typeof LIMITS} limits
 * @property {{ id: string, secret: string } | undefined} session
 * @property {boolean} [reload]  the last document that had the session is gone
 * @property {() => unknown} recall  before each hello: takes up what the tab has kept; never fails
 * @property {() => void} keep  the session has changed: it is the tab's to remember, or to forget
 * @property {() => boolean} visible  whether somebody may be looking
 * @property {string | undefined} agent  who answers when a run does not say
 * @property {Set<(error: any) => void>} errorListeners
 * @property {import("./socket.js").Socket} socket
 * @property {import("./commands.js").Commands} commands
 * @property {import("./tools.js").Tools} tools
 * @property {import("./context.js").Context} context
 * @property {import("./approvals.js").Approvals} approvals
 * @property {import("./calls.js").Calls} calls
 * @property {(command: Frame) => Promise<any>} command  sends one after everything that it may depend on:
 *   the tools and the context of this moment
 * @property {(frame: Frame) => void} notify  sends what has no answer, and is worth nothing later
 * @property {false | (() => unknown)} settle  what to wait for between a handler's end and its result
 * @property {(error: any) => void} problem  something went wrong that nobody waits for; harms nothing (P14)
 * @property {Map<string, Member>} threads  that are open
 * @property {(command: Frame) => void} tell  sends one if it can; the next hello would say it anyway
 * @property {() => void} close  for good, and on purpose: the server may forget the session
 */

/**
 * @param {Options} options
 * @returns {Host}
 */
export function makeHost({ agent, settle = macrotask, ...wiring }) {
  const documentId = randomId("d");
  /** @type {Host["threads"]} */
  const threads = new Map();
  /** Fires when the bridge is closed. */
  const life = new AbortController();

  /** @param {Frame} command */
  const tell = (command) => void (socket.ready() && commands.send(command, false).catch(problem));

  /** @param {any} error */
  function problem(error) {
    if (!host.errorListeners.size) console.error(error);
    for (const listener of host.errorListeners) {
      try {
        listener(error);
      } catch (bad) {
        console.error(bad);
      }
    }
  }

  /** @param {Frame} frame */
  const toThread = (frame) => threads.get(frame.threadId)?.take(frame);

  /** @param {Frame} frame */
  function welcome({ session, resumed, limits, threads: opened, tools }) {
    host.session = session;
    host.limits = { ...LIMITS, ...limits };
    if (!resumed) calls.end("unknown");
    host.keep();
    host.tools.welcome(resumed, tools);
    for (const { threadId, error } of opened)
      if (error) {
        const refusal = new HandspanError({ ...error, threadId });
        threads.get(threadId)?.fail(refusal);
        problem(refusal);
      }
    calls.resend();
  }

  /**
   * The session is another's, or no more.
   * @param {string} reason
   */
  function forget(reason) {
    host.session = undefined;
    calls.end(reason);
    host.keep();
  }

  /** @type {Host} */
  const host = /** @type {any} */ ({
    status: "connecting",
    limits: LIMITS,
    agent,
    settle,
    keep() {},
    async recall() {
      try {
        await (await import("./tab.js")).openTab(host, life.signal);
      } catch {}
    },
    visible: isVisible,
    errorListeners: new Set(),
    problem,
    command(/** @type {Frame} */ command) {
      socket.wake("parked");
      host.tools.flush();
      const set = socket.ready() && context.fresh();
      if (set) tell({ type: "context.update", set });
      return commands.send(command);
    },
    notify(/** @type {Frame} */ frame) {
      const text = toText(frame, LIMITS.frameBytes);
      if (text) socket.send(text);
    },
    threads,
    tell,
    close() {
      host.notify({ type: "bye" });
      socket.end(new HandspanError({ code: "closed" }));
    },
  });

  const commands = (host.commands = makeCommands(host));
  const context = (host.context = makeContext(host));
  const calls = (host.calls = makeCalls(host));
  host.tools = makeTools(host);
  host.approvals = makeApprovals(host);

  /** @type {Record<string, (frame: Frame) => void>} */
  const receivers = {
    // @ts-ignore: names of prototypes are no frames
    __proto__: null,
    welcome,
    events: toThread,
    snapshot: toThread,
    reply: commands.settle,
    "tool.call": calls.take,
    "tool.cancel": calls.cancel,
    "approval.request": host.approvals.take,
    error: (frame) => problem(new HandspanError(/** @type {any} */ (frame))),
  };

  const socket = (host.socket = makeSocket(wiring, {
    problem,
    recall: () => host.recall(),
    hello: (token) => ({
      type: "hello",
      protocol: PROTOCOL,
      documentId,
      client: CLIENT,
      token,
      session: host.session,
      reload: host.reload,
      threads: Array.from(threads.values(), (thread) => thread.cursor()),
      calls: told(calls.journal()),
      tools: host.tools.hello(),
      context: context.hello(),
      visible: isVisible(),
    }),
    ready: commands.resend,
    receive: (frame) => receivers[frame.type]?.(frame),
    lost: commands.lost,
    superseded: () => forget("superseded"),
    over(error) {
      life.abort();
      forget("closed");
      commands.fail(error);
      threads.forEach((thread) => thread.fail(error));
    },
    turn(status) {
      host.status = status;
      threads.forEach((thread) => thread.changed());
    },
  }));
  socket.open();
  return host;
}
