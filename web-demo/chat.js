/**
 * Draws the conversation. Each entry keeps its element for as long as it is there, and a text that grows
 * is only added to: streaming disturbs neither the focus nor a selection nor an opened call. The log
 * follows its end while the reader is there, and stays where it is once they have scrolled away. However
 * much comes, it is drawn once a frame, and measured once: a torrent must not keep a key from getting through.
 *
 * Where a visitor's message waits (for its turn, for the connection) it stands at the end, and says so.
 */

import { inWords, isSettled, makeCallRow } from "./call-row.js";
import { button, byId, element, perFrame, write } from "./dom.js";
import { endNote, endsBetween, entriesOf } from "./entries.js";

/** @import { View } from "/client/shell/conversation.js" */
/** @import { LastRun } from "/client/core/reducer.js" */
/** @import { CallEntry, Entry, Placed } from "./entries.js" */
/** @import { Questions } from "./questions.js" */

/** Nearer to the end than this, the reader is at the end. */
const END_PX = 32;

/** Further down than any end; the browser stops at the end without being asked where it is. */
const FAR_PX = 1e7;

/**
 * @typedef {{ row: HTMLElement, update: (entry: any) => void, entry?: Entry }} Drawn
 * @typedef {{ row: HTMLElement, settle: () => void }} Waiting
 */

/**
 * @param {Questions} questions
 * @param {(text: string) => void} announce
 */
export function makeChat(questions, announce) {
  const log = byId("log");
  const list = byId("entries");
  const queue = byId("queue");
  const newest = byId("newest");
  /** @type {Map<string, Drawn>} */
  const drawn = new Map();
  /** By key. @type {Map<string, Placed>} */
  const notes = new Map();
  /** What has been announced, or was there when the page came. @type {Set<string>} */
  const told = new Set();
  /** @type {View | undefined} */
  let view;
  /** Whether what was said before this page came has arrived: it is the first news once the bridge is open. */
  let isCaughtUp = false;
  /** Of the log, when it was last looked at. */
  let height = 0;
  let problems = 0;
  const drawSoon = perFrame(() => draw());

  /** @param {View} next */
  function show(next) {
    const before = view;
    view = next;
    for (const { end, after } of endsBetween(before, next)) ended(end, after);
    if (isCaughtUp) return drawSoon();
    isCaughtUp = before?.status === "open";
    if (isCaughtUp) bringUp();
    draw(true);
  }

  /** What was noted before the conversation came stands behind it, where it is seen. */
  function bringUp() {
    for (const { note } of [...notes.values()].filter(({ after }) => after === undefined)) {
      notes.delete(note.key);
      notes.set(note.key, { after: newestId(), note });
    }
  }

  /**
   * Notes how a run ended. Where, whoever started it knows best; how, whoever was told.
   * @param {LastRun} end
   * @param {string} [after]  the id of the run's last message; none: where it was put before, else here
   */
  function ended(end, after) {
    const note = endNote(end);
    const before = notes.get(note.key);
    const isTold = end.result || end.error || !before;
    notes.set(note.key, { after: after ?? before?.after ?? newestId(), note: isTold ? note : before.note });
  }

  /** The newest message that will stay: one that has said nothing yet may be gone when it ends. */
  const newestId = () => view?.messages.findLast(({ content, toolCalls }) => content || toolCalls)?.id;

  /** @param {boolean} [silently]  it was there before this page was */
  function draw(silently = false) {
    if (!view) return;
    const follows = isAtEnd();
    const entries = entriesOf(view, notes.values(), questions.stateOf);
    const keys = new Set(entries.map(({ key }) => key));
    for (const [key, { row }] of drawn) if (!keys.has(key) && drawn.delete(key)) row.remove();
    entries.forEach((entry, at) => place(entry, at, silently));
    byId("working").hidden = !isThinking(view, entries);
    if (follows) toEnd();
    newest.hidden = follows;
  }

  /**
   * @param {Entry} entry
   * @param {number} at
   * @param {boolean} silently
   */
  function place(entry, at, silently) {
    const own = drawn.get(entry.key) ?? make(entry);
    if (list.children[at] !== own.row) list.insertBefore(own.row, list.children[at] ?? null);
    if (!isSame(own.entry, entry)) own.update(entry);
    own.entry = entry;
    if (entry.kind === "call") ask(entry, own.row);
    tell(entry, silently);
  }

  /** @param {Entry} entry */
  function make(entry) {
    const own = entry.kind === "call" ? makeCallRow(entry) : makeText(entry);
    drawn.set(entry.key, own);
    return /** @type {Drawn} */ (own);
  }

  /**
   * @param {CallEntry} entry
   * @param {HTMLElement} row
   */
  function ask({ callId, state }, row) {
    if (state === "asking") questions.place(callId, row);
    else if (state === "running" || isSettled(state)) questions.close(callId);
  }

  /**
   * Announces an entry once, when it is whole. What a visitor said they know.
   * @param {Entry} entry
   * @param {boolean} silently
   */
  function tell(entry, silently) {
    const whole = entry.kind === "call" ? isSettled(entry.state) : entry.kind === "note" || entry.whole;
    if (!whole || told.has(entry.key)) return;
    told.add(entry.key);
    if (!silently && entry.kind !== "user") announce(entry.kind === "call" ? inWords(entry) : entry.text);
  }

  /** The log gives way to what stands around it: one who was at its end then is there still. */
  const isAtEnd = () => log.scrollHeight - log.scrollTop - Math.max(height, log.clientHeight) < END_PX;
  const toEnd = () => void (log.scrollTop = FAR_PX);

  new ResizeObserver(() => {
    if (isAtEnd()) toEnd();
    height = log.clientHeight;
  }).observe(log);
  log.addEventListener("scroll", () => void (newest.hidden = isAtEnd()), { passive: true });
  newest.addEventListener("click", () => {
    toEnd();
    log.focus();
  });
  questions.onChange(drawSoon);

  return {
    show,

    /**
     * How a run of this page ended, for whoever started it: of runs that end in one breath, a view tells
     * the last one only.
     * @param {LastRun} end
     * @param {string} [after]  the id of the run's last message
     */
    ended(end, after) {
      ended(end, after);
      drawSoon();
    },

    /**
     * Something that went wrong, or is good to know, said where everybody looks.
     * @param {string} text
     * @param {"end" | "problem"} [tone]
     */
    note(text, tone = "problem") {
      if (notes.get(`note ${problems}`)?.note.text === text) return;
      const key = `note ${++problems}`;
      notes.set(key, { after: newestId(), note: { kind: "note", key, text, tone } });
      told.add(key);
      announce(text);
      drawSoon();
    },

    /**
     * A message that was sent and is not part of the conversation yet.
     * @param {string} text
     * @param {() => void} takeBack
     * @returns {() => void} to be called when it is, or when it will never be
     */
    wait(text, takeBack) {
      const row = element("div", { class: "waiting" }, element("p", { class: "user" }, text));
      const why = view?.status === "open" ? "waits for its turn" : "waits for the connection";
      row.append(element("p", { class: "why" }, why, " ", button("Take back", takeBack)));
      queue.append(row);
      toEnd();
      return () => row.remove();
    },
  };
}

/** @param {Exclude<Entry, CallEntry>} entry */
function makeText({ kind, ...entry }) {
  const tone = "tone" in entry ? entry.tone : undefined;
  const row = element("p", { class: kind, "data-tone": tone });
  return { row, update: (/** @type {{ text: string }} */ { text }) => write(row, text) };
}

/**
 * Whether a run is going on and nothing of it is to be seen at the moment.
 * @param {View} view
 * @param {Entry[]} entries
 */
function isThinking({ run, open }, entries) {
  const last = entries.at(-1);
  return Boolean(run) && !open.length && !(last?.kind === "call" && !isSettled(last.state));
}

/**
 * @param {Entry | undefined} one
 * @param {Entry} other
 */
function isSame(one, other) {
  const [a, b] = /** @type {any[]} */ ([one ?? {}, other]);
  return Object.keys(b).every((name) => a[name] === b[name]);
}
