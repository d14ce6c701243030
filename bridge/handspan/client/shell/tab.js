/**
 * The tab that the page lives in: how it is looked at, left and shown again, and what it keeps over a
 * reload. Loaded before the first hello, which says what was kept. Without it a page works, and is only
 * slower to come back; where nothing can be stored nothing is, and nobody is told.
 *
 * Kept are the session, from its welcome on, and the results that nobody has taken, once the page is
 * left. What is left gets a mark, and the next document takes that away: so the mark of a session says
 * that its document is gone. A duplicated tab has a copy of a living page's storage, without one: it
 * asks for the session too, is refused, and drops all of it. Calls that were only received or started
 * are not kept: the server judges them by what it has recorded (behaviour 3 and 5).
 *
 * The bridges of a page have a place each, in the order in which they opened; and so has each frame,
 * because the frames of a tab share its storage.
 */

/** @import { Answer, Journal } from "../core/journal.js" */
/** @import { Host } from "./host.js" */

/** @typedef {{ callId: string, attempt: number, answer: Answer }} Done */

const KEPT = "handspan.kept";
const LEFT = "handspan.left";

/**
 * A page out of the browser's cache is told that it is shown before the other one is told that it is
 * left. *Source:* 3 ms in Chromium 156, November 2026.
 */
const LEAVING_MS = 50;

/** As much text of results is kept, all together; what is more goes with its document. */
const RESULTS_CHARS = 2 ** 16;

/**
 * Gives the host its tab: what it recalls and keeps is the tab's from now on, and so is what it recalls
 * first.
 * @param {Host} host
 * @param {AbortSignal} life  of the bridge
 */
export async function openTab(host, life) {
  if (life.aborted) return;
  look(host, life);
  host.recall = () => {};
  await remember(host, sessionStorage, life);
}

/**
 * Hears what happens to the page.
 * @param {Host} host
 * @param {AbortSignal} signal
 */
function look({ socket, notify, visible }, signal) {
  const focus = () => socket.wake("parked", "waiting");
  /** @type {Record<string, () => void>} */
  const on = {
    focus,
    online: () => socket.wake("waiting"),
    pagehide: socket.hide, // it may come back, out of the browser's cache
    pageshow: () => socket.wake("hidden"),
    visibilitychange() {
      notify({ type: "visibility", visible: visible() });
      if (visible()) focus();
    },
  };
  for (const type in on) globalThis.addEventListener?.(type, on[type], { signal });
}

/**
 * @param {Host} host
 * @param {Storage} storage
 * @param {AbortSignal} life
 */
function remember(host, storage, life) {
  const { calls, socket } = host;
  const { used, left } = places();
  const frame = `[${wayTo(globalThis.window)}]`;
  let place = "";
  for (let n = 0; !place || used.has(place); n++) place = `${frame}${n} ${socket.address}`;
  used.add(place);
  life.addEventListener("abort", () => used.delete(place));
  const key = KEPT + place;
  const mark = LEFT + place;
  /** What this document has last seen there. @type {string | undefined} */
  let known;

  /** Takes the marks away; whether the last document that had our place has left one. */
  function takeMarks() {
    for (const name of Object.keys(storage))
      if (name.startsWith(LEFT + frame)) {
        delete storage[name];
        left.add(name.slice(LEFT.length));
      }
    return left.has(place);
  }

  // Before every hello: others may have been here while the page was in the browser's cache.
  host.recall = quietly(async () => {
    if (!takeMarks() && known && known !== storage[key]) await pause();
    host.reload = takeMarks();
    const kept = storage[key];
    if (!kept || kept === known) return;
    known = kept;
    const { session, done } = JSON.parse(kept);
    host.session = session;
    done.forEach(calls.restore);
  });

  const keep = (host.keep = quietly(() => {
    const { session } = host;
    left.delete(place);
    known = undefined;
    delete storage[key];
    delete storage[mark];
    if (session) known = storage[key] = JSON.stringify({ session, done: done(calls.journal()) });
  }));

  const leave = quietly(() => {
    if ((storage[key] ?? known) !== known) return; // a page that is shown again has it already
    keep();
    storage[mark] = "";
  });
  globalThis.addEventListener("pagehide", leave, { signal: life });
  return host.recall();
}

/**
 * Of this document: the places in use, and those that the last document has left. Every copy of the
 * library that a page has loaded shares them.
 * @returns {{ used: Set<string>, left: Set<string> }}
 */
const places = () =>
  (/** @type {any} */ (globalThis)[Symbol.for(KEPT)] ??= { used: new Set(), left: new Set() });

/**
 * A move that may fail, and then costs only what it would have kept.
 * @param {() => unknown} move
 */
const quietly = (move) => async () => {
  try {
    await move();
  } catch {}
};

/** Until the document that was shown before has left. */
const pause = () => new Promise((go) => setTimeout(go, LEAVING_MS));

/**
 * From a tab's page to one of its frames; the page itself is at "".
 * @param {Window | undefined} frame
 * @returns {string}
 */
const wayTo = (frame) =>
  !frame || frame === frame.parent
    ? ""
    : `${wayTo(frame.parent)}${Array.prototype.indexOf.call(frame.parent, frame)},`;

/**
 * What is done, as far as there is room.
 * @param {Journal} journal
 */
function done(journal) {
  let room = RESULTS_CHARS;
  /** @type {Done[]} */
  const kept = [];
  for (const { callId, attempt, answer } of journal.values()) {
    const chars = answer ? JSON.stringify(answer).length : Infinity;
    if (chars > room) continue;
    room -= chars;
    kept.push({ callId, attempt, answer: /** @type {Answer} */ (answer) });
  }
  return kept;
}
