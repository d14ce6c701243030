/**
 * One thread as the page sees and uses it: folds what comes (`core/reducer.js`), tells who subscribed,
 * and hands each run its events. Knows nothing of sockets; the host brings frames and takes commands.
 */

import { HandspanError } from "../core/protocol.js";
import { apply, EMPTY, follows, fromSnapshot } from "../core/reducer.js";
import { randomId } from "./page.js";
import { makeRun } from "./run.js";

/** @import { AgUiEvent, Frame, Json, Message, PatchOperation } from "../core/protocol.js" */
/** @import { LastRun, Run as RunState } from "../core/reducer.js" */
/** @import { CallView, Overlay } from "../core/overlay.js" */
/** @import { Status } from "./socket.js" */
/** @import { Host } from "./host.js" */
/** @import { Run, RunEnd, RunHandle } from "./run.js" */

/**
 * @typedef {object} View  what a subscriber gets; parts that did not change are the same objects
 * @property {readonly Message[]} messages
 * @property {RunState | null} run
 * @property {LastRun | null} lastRun
 * @property {readonly CallView[]} calls  of the run that is going on
 * @property {Json} state
 * @property {readonly string[]} open  ids of the texts, reasonings and calls that are under way
 * @property {readonly string[]} suggestions
 * @property {Status} status
 *
 * @typedef {object} RunOptions
 * @property {string} [agent]
 * @property {"reject" | "queue" | "replace"} [ifBusy]
 * @property {string} [after]  a message's id: what follows it leaves the history (edit, regenerate)
 * @property {Json} [forwardedProps]
 * @property {string} [runId]
 *
 * @typedef {object} InvokeOptions
 * @property {boolean | string} [followUp]
 * @property {"reject" | "queue"} [ifBusy]
 * @property {string} [runId]
 *
 * @typedef {object} Invoked
 * @property {string} callId
 * @property {string} runId
 * @property {"ok" | "error" | "denied" | "aborted" | "unknown"} outcome
 * @property {Json} [result]
 * @property {{ code: string, message: string }} [error]
 *
 * @typedef {object} Conversation
 * @property {string} threadId
 * @property {readonly Message[]} messages
 * @property {Status} status  of the bridge
 * @property {(message?: string | readonly any[] | Partial<Message> | null, options?: RunOptions) => Run} run
 *   Asks the agent: text, AG-UI parts or a user message; nothing: the agent goes on from the history as
 *   it is. Nobody has to wait for the run, nor look at how it ends.
 * @property {(name: string, args?: Record<string, any>, options?: InvokeOptions) => Promise<Invoked>} runTool
 *   Carries out a tool as a button does, without the agent. A call that fails is no exception: its
 *   `outcome` says so. Rejects when the command was refused.
 * @property {() => Promise<boolean>} abort  Stops the run that is going on; false: there was none.
 * @property {(listener: (view: View) => void) => () => void} subscribe  Calls it now, and after every
 *   change, once however much changed at a time. Returns what ends it.
 * @property {(operations: readonly PatchOperation[]) => Promise<void>} patchState  RFC 6902
 * @property {(state: unknown) => Promise<void>} setState
 * @property {() => void} close  Ends the stream of this thread here. Calls that this page has of it stay
 *   its own.
 */

/**
 * @param {Host} host
 * @param {string} threadId
 * @returns {Conversation}
 */
export function makeConversation(host, threadId) {
  let state = EMPTY;
  /** @type {Map<string, RunHandle>} */
  const runs = new Map();
  /** @type {Set<(view: View) => void>} */
  const listeners = new Set();
  /** What subscribers see; none when it is to be made anew. @type {View | undefined} */
  let view;
  /** Loaded for the first subscriber. @type {Overlay | undefined} */
  let overlay;

  /** @param {Frame} command */
  const send = (command) => host.command({ threadId, ...command });

  /**
   * Sees a run's command through. A run that was there before was asked for twice, and the first answer
   * was lost with the server's memory of it: what is known of it tells how it stands.
   * @param {RunHandle} handle
   * @param {Frame} command
   */
  async function start(handle, command) {
    let known;
    try {
      handle.queued = (await send(command)).queued && host.session?.id;
      known = state.lastRun?.runId === handle.run.id;
    } catch (/** @type {any} */ refusal) {
      known = refusal.code === "duplicate_id";
      if (!known) return over(handle, refusal);
    }
    handle.accepted = true;
    if (known) reconcile(handle);
  }

  /**
   * A run that is stopped while it waits in the queue leaves no trace in the log.
   * @param {RunHandle} [handle]  none: the one that is going on
   * @returns {Promise<boolean>} false too when nobody could be asked
   */
  const abort = (handle) =>
    send({ type: "run.abort", runId: handle?.run.id }).then(
      ({ aborted }) => {
        if (aborted && handle?.queued) over(handle, { reason: "aborted", depth: 0 });
        return aborted;
      },
      () => false,
    );

  /**
   * What a snapshot means for a run: it goes on, it has ended meanwhile, or nobody knows it any more.
   * @param {RunHandle} handle
   */
  function reconcile(handle) {
    const { run, lastRun } = state;
    const id = handle.run.id;
    if (run?.runId === id) handle.queued = "";
    else if (lastRun?.runId === id) over(handle, endOf(lastRun));
    else if (!run || handle.queued !== host.session?.id) over(handle, { reason: "lost", depth: 0 });
  }

  /** @param {Frame} frame  a `snapshot` or `events` */
  function take(frame) {
    if (frame.type === "snapshot") {
      state = fromSnapshot(frame);
      state.calls.forEach(host.approvals.told);
      runs.forEach((handle) => handle.accepted && reconcile(handle));
    } else {
      if (!follows(state, frame)) return;
      frame.events.forEach(happen);
      const { epoch, offset } = frame;
      state = { ...state, epoch, offset };
    }
    changed();
  }

  /** @param {AgUiEvent} event */
  function happen(event) {
    const before = state.run;
    state = apply(state, event);
    overlay?.see(state, event);
    if (event.name === "handspan.call") host.approvals.told(event.value);
    const handle = runs.get(/** @type {any} */ ((state.run ?? before)?.runId));
    if (!handle) return;
    handle.queued = "";
    handle.push(event);
    if (!state.run) over(handle, endOf(state.lastRun));
  }

  /**
   * @param {RunHandle} handle
   * @param {RunEnd | HandspanError} end
   */
  function over(handle, end) {
    runs.delete(handle.run.id);
    handle.end(end);
    changed();
  }

  /** For a reason that is told already, so nobody has to be told by a run. @param {HandspanError} error */
  const fail = (error) => runs.forEach((handle) => over(handle, (handle.run.finished, error)));

  /** Subscribers are told when the frame is through, however many events it had (C092). */
  function changed() {
    if (view) queueMicrotask(() => listeners.forEach(tell));
    view = undefined;
  }

  /** Where it cannot be loaded a view is the bare state: true, but only as new as the server's word. */
  async function load() {
    try {
      overlay = (await import("../core/overlay.js")).overlay(runs);
      changed();
    } catch {}
  }

  /** @param {(view: View) => void} listener */
  function tell(listener) {
    try {
      listener((view ??= { ...state, status: host.status, ...overlay?.over(state) }));
    } catch (error) {
      host.problem(error);
    }
  }

  /** @type {Conversation} */
  const face = {
    threadId,
    get messages() {
      return state.messages;
    },
    get status() {
      return host.status;
    },
    run(/** @type {any} */ said, { runId = randomId("r"), ...options } = {}) {
      const handle = makeRun(runId, () => abort(handle), host.problem);
      const message = said && {
        id: randomId("u"),
        role: "user",
        ...(said.content == null ? { content: said } : said),
      };
      handle.message = message;
      runs.set(runId, handle);
      start(handle, { type: "run.start", agent: host.agent, ...options, runId, message });
      changed();
      return handle.run;
    },
    runTool: (name, args = {}, options) =>
      send({ type: "tool.invoke", runId: randomId("r"), ...options, name, args }),
    abort: () => abort(),
    subscribe(listener) {
      const own = (/** @type {View} */ view) => listener(view);
      listeners.add(own);
      tell(own);
      if (!overlay) load();
      return () => void listeners.delete(own);
    },
    patchState: (patch) => send({ type: "state.update", patch }),
    setState: (state = null) => send({ type: "state.update", state }),
    close() {
      listeners.clear();
      host.threads.delete(threadId);
      host.tell({ type: "thread.close", threadId });
      fail(new HandspanError({ code: "closed" }));
    },
  };
  host.threads.set(threadId, {
    face,
    cursor: () => ({ threadId, epoch: state.epoch, offset: state.offset }),
    take,
    fail,
    changed,
  });
  host.tell({ type: "thread.open", threadId });
  return face;
}

/**
 * @param {any} last
 * @returns {any}
 */
const endOf = ({ result, error }) => (error ? new HandspanError({ code: "agent_error", ...error }) : result);
