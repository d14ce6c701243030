/**
 * What a visitor can press: the message box with Send and Stop, the suggestions, the buttons that call a
 * tool without a model, the box for a new card. Owns what each of them asks of the bridge; what becomes
 * of a message is `saying.js`'s.
 *
 * A message or a button while a run is going on waits for its turn. Stop ends what is going on; what
 * waits can be taken back by itself. Stop is always there and keeps the focus: it is never `disabled`,
 * only said to be.
 */

import { button, byId, element, icon } from "./dom.js";
import { makeSaying, why } from "./saying.js";

/** @import { Bridge } from "/client/handspan.js" */
/** @import { View } from "/client/shell/conversation.js" */
/** @import { Board } from "./board.js" */
/** @import { ThemeSwitch } from "./theme.js" */

/**
 * What a visitor may begin with.
 * @param {string} theme  that is not shown
 */
const starters = (theme) => [
  `make it ${theme}`,
  "add milk to todo and move it to done",
  "plan a party",
  "run the slow task",
  "clear the board",
  "call make_coffee with cups 2",
];

const SURPRISES = [
  "Call the moon",
  "Fold a paper boat",
  "Learn one bird song",
  "Bake something round",
  "Write to an old friend",
];

/**
 * @typedef {object} Parts
 * @property {Board} board
 * @property {ThemeSwitch} theme
 * @property {ReturnType<typeof import("./chat.js").makeChat>} chat
 * @property {(text: string) => void} announce
 */

/**
 * @param {Bridge} bridge
 * @param {Parts} parts
 */
export function makeControls(bridge, { board, theme, chat, announce }) {
  const message = byId("message");
  const stop = byId("stop");
  const suggestions = byId("suggestions");
  const saying = makeSaying(bridge, chat);
  /** The texts on offer, as JSON. */
  let offered = "[]";
  /** Calls of buttons that are not answered yet. */
  let calling = 0;
  /** @type {View | undefined} */
  let view;

  /**
   * Calls a tool as a model would, but without one. With `followUp` the agent gets the result and answers;
   * else, or when the call was stopped, that was all of the run.
   * @param {string} name
   * @param {object} args
   * @param {boolean} [followUp]
   */
  async function call(name, args, followUp = false) {
    calling++;
    showOffer();
    try {
      const { runId, callId, outcome } = await bridge.runTool(name, args, { followUp, ifBusy: "queue" });
      const reason = outcome === "aborted" ? "aborted" : followUp ? "" : "no_follow_up";
      const own = bridge.messages.findLast(({ toolCalls }) => toolCalls?.some(({ id }) => id === callId));
      if (reason) chat.ended({ runId, result: { reason, depth: 0 } }, own?.id);
    } catch (error) {
      chat.note(`not carried out: ${why(error)}`);
    } finally {
      calling--;
      showOffer();
    }
  }

  /** Whoever stops a run knows how it ended, also when it was another tab's. */
  async function halt() {
    if (stop.getAttribute("aria-disabled") === "true") return;
    const runId = view?.run?.runId;
    const isStopped = await bridge.abort();
    if (runId && isStopped) chat.ended({ runId, result: { reason: "aborted", depth: 0 } });
  }

  function showStop() {
    const now = String(!view?.run && !saying.isWaiting);
    if (stop.getAttribute("aria-disabled") !== now) stop.setAttribute("aria-disabled", now);
  }

  /**
   * What to say next: the page's own ideas before anything was said, then the server's. None of them once
   * a run was asked for.
   */
  function showOffer() {
    const isAsked = saying.isWaiting || calling > 0;
    const isBegun = isAsked || Boolean(view?.messages.length);
    byId("welcome").hidden = isBegun;
    offer(isAsked ? [] : isBegun ? (view?.suggestions ?? []) : starters(otherTheme()));
  }

  /** @param {readonly string[]} texts */
  function offer(texts) {
    const now = JSON.stringify(texts);
    if (now === offered) return;
    offered = now;
    const chips = texts.map((text) => element("li", {}, button(text, () => take(text))));
    suggestions.replaceChildren(...chips);
  }

  /**
   * Says a suggestion. Its button goes, so the focus moves on; not into the box where that would bring up a
   * keyboard that nobody asked for.
   * @param {string} text
   */
  function take(text) {
    const next = matchMedia("(pointer: coarse)").matches ? byId("log") : message;
    next.focus({ preventScroll: true });
    saying.say(text);
  }

  byId("composer").addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    const text = message.value.trim();
    if (!text) return;
    message.value = "";
    saying.say(text);
  });
  message.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    byId("composer").requestSubmit();
  });
  stop.addEventListener("click", halt);
  byId("talk").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") halt();
  });

  saying.onChange(() => {
    showStop();
    showOffer();
  });

  byId("new-card-add").append(icon("add"));
  byId("new-card-form").addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    const box = byId("new-card");
    if (!box.value.trim()) return;
    try {
      const { added, column } = board.add(box.value, "To do");
      announce(`${added}: added to ${column}`);
      box.value = "";
    } catch (error) {
      chat.note(/** @type {Error} */ (error).message);
    }
  });

  const otherTheme = () => (theme.current === "dark" ? "light" : "dark");
  theme.subscribe(() => void (byId("do-theme").textContent = `Make it ${otherTheme()}`));
  byId("do-theme").addEventListener("click", () => call("set_theme", { theme: otherTheme() }));
  byId("do-surprise").addEventListener("click", () => call("add_card", { title: surprise(board) }));
  byId("do-slow").addEventListener("click", () => call("slow_task", {}));
  byId("do-highlight").addEventListener("click", () => call("highlight", { target: "Done" }, true));
  byId("do-list").addEventListener("click", () => call("list_cards", {}, true));

  return {
    /** @param {View} next */
    show(next) {
      view = next;
      showStop();
      showOffer();
    },
  };
}

/**
 * A title that is not on the board yet.
 * @param {Board} board
 */
function surprise({ cards }) {
  const free = SURPRISES.filter((title) => !cards.some((card) => card.title === title));
  return free[Math.floor(Math.random() * free.length)] ?? `Surprise ${cards.length + 1}`;
}
