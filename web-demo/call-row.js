/**
 * One call in the conversation: what is called, with what, how far it is, what came of it. A row to be
 * opened for the whole of it; what matters (a failure's reason, the progress, a question) shows anyway.
 * The state is told by a word and an icon, never by colour alone.
 */

import { element, icon, write } from "./dom.js";
import { titleOf } from "./tools.js";

/** @import { CallEntry, CallState } from "./entries.js" */

/** @type {Record<CallState, { words: string, icon: import("./dom.js").IconName }>} */
const LOOKS = {
  preparing: { words: "preparing", icon: "waiting" },
  waiting: { words: "waiting", icon: "waiting" },
  asking: { words: "asks you", icon: "asking" },
  allowed: { words: "allowed, waits for its page", icon: "waiting" },
  running: { words: "running", icon: "running" },
  done: { words: "done", icon: "done" },
  failed: { words: "failed", icon: "failed" },
  declined: { words: "declined", icon: "declined" },
  stopped: { words: "stopped", icon: "stopped" },
  unclear: { words: "unclear how it ended", icon: "unclear" },
};

/** Whether nothing more will be told of it. */
export const isSettled = (/** @type {CallState} */ state) =>
  !["preparing", "waiting", "asking", "allowed", "running"].includes(state);

/** In words, for those who do not see the row. @param {CallEntry} entry */
export const inWords = ({ name, state, result }) =>
  `${titleOf(name)}: ${LOOKS[state].words}${state === "failed" ? `, ${reason(result)}` : ""}`;

/** @param {CallEntry} first */
export function makeCallRow({ name }) {
  const parts = {
    mark: element("span", { class: "mark" }),
    state: element("span", { class: "state" }),
    brief: element("span", { class: "brief" }),
    args: element("pre"),
    resultTitle: element("dt", { hidden: true }, "Result"),
    result: element("pre"),
    why: element("p", { class: "why", hidden: true }),
  };
  const title = titleOf(name);
  const code = title === name ? [] : [" ", element("code", {}, name)];
  const more = element("dl", {}, element("dt", {}, "Arguments"), element("dd", {}, parts.args));
  more.append(parts.resultTitle, element("dd", {}, parts.result));
  const summary = element("summary", {}, parts.mark, element("span", { class: "title" }, title, ...code));
  summary.append(" ", parts.state, " ", parts.brief);
  const row = element("div", { class: "call" }, element("details", {}, summary, more), parts.why);
  /** @type {{ bar: HTMLElement, update: (entry: CallEntry) => void } | undefined} */
  let progress;

  /** @param {CallEntry} entry */
  function update(entry) {
    const { state, args, result, told } = entry;
    if (row.dataset.state !== state) turn(state);
    write(parts.brief, brief(args));
    write(parts.args, pretty(args));
    parts.resultTitle.hidden = result === undefined;
    write(parts.result, result === undefined ? "" : pretty(result));
    parts.why.hidden = state !== "failed";
    write(parts.why, state === "failed" ? reason(result) : "");
    if (state === "running" && told?.progress !== undefined && !progress) {
      progress = makeProgress(title);
      row.append(progress.bar);
    }
    if (isSettled(state)) progress = progress?.bar.remove() ?? undefined;
    progress?.update(entry);
  }

  /** @param {CallState} state */
  function turn(state) {
    row.dataset.state = state;
    parts.mark.replaceChildren(icon(LOOKS[state].icon));
    parts.state.textContent = LOOKS[state].words;
  }

  return { row, update };
}

/** @param {string} title */
function makeProgress(title) {
  const bar = element("progress", { "aria-label": `Progress of: ${title}` });
  const words = element("span");
  return {
    bar: element("p", { class: "progress" }, bar, words),

    /** @param {CallEntry} entry */
    update({ told }) {
      if (told?.progress === undefined) return;
      if (told.total) [bar.max, bar.value] = [told.total, told.progress];
      write(words, told.message ?? `${told.progress}${told.total ? ` of ${told.total}` : ""}`);
    },
  };
}

/**
 * JSON laid out to be read; what is no JSON (yet) as it is.
 * @param {string} text
 */
function pretty(text) {
  const value = parsed(text);
  return value === undefined ? text : JSON.stringify(value, null, 2);
}

/**
 * The arguments in one line: `title: milk · column: Done`.
 * @param {string} text
 */
function brief(text) {
  const shown = (/** @type {unknown} */ value) => (typeof value === "string" ? value : JSON.stringify(value));
  const entries = Object.entries(parsed(text) ?? {});
  return entries.map(([name, value]) => `${name}: ${shown(value)}`).join(" · ");
}

/**
 * Why it failed, out of the result's text.
 * @param {string | undefined} result
 */
function reason(result = "") {
  return String(parsed(result)?.error?.message ?? result);
}

/**
 * @param {string} text
 * @returns {any} undefined when it is no JSON
 */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
