/**
 * What an agent can do in this page. This is the part to read first: a tool is a name, what the model is
 * told of it, and a function. What the function returns goes back to the model; what it throws does too,
 * as an error that says what was wrong, so that the model can do better.
 *
 *     title        how the conversation names it
 *     readOnly     changes nothing: may overlap other calls
 *     idempotent   twice is as good as once: may be tried again when the page was reloaded meanwhile
 *     approval     "always": carried out only when the visitor allowed it
 *     agent        offered to that agent alone
 */

import { COLUMNS, TITLE_CHARS } from "./board.js";

/** @import { Bridge } from "/client/handspan.js" */
/** @import { ToolOptions, CallInfo } from "/client/shell/tools.js" */
/** @import { Board } from "./board.js" */
/** @import { BookingForm } from "./booking.js" */
/** @import { Corner } from "./corner.js" */
/** @import { Goal } from "./goal.js" */
/** @import { ThemeSwitch } from "./theme.js" */

/**
 * @typedef {object} Parts  what the tools work on
 * @property {Board} board
 * @property {ReturnType<typeof import("./columns.js").showColumns>} columns
 * @property {ThemeSwitch} theme
 * @property {BookingForm} booking
 * @property {Corner} corner
 * @property {Goal} goal
 */

const TITLE = { type: "string", minLength: 1, maxLength: TITLE_CHARS, description: "the card's title" };
const COLUMN = { enum: COLUMNS };
const TARGET = { type: "string", description: "a card's title or a column's name" };

/** @type {Record<string, ToolOptions>} */
const TOOLS = {
  add_card: {
    title: "Add a card",
    description: "Add a card to a column of the board",
    parameters: object({ title: TITLE, column: { ...COLUMN, default: "To do" } }, ["title"]),
  },
  move_card: {
    title: "Move a card",
    description: "Move a card to another column",
    parameters: object({ title: TITLE, column: COLUMN }, ["title", "column"]),
    idempotent: true,
  },
  remove_card: {
    title: "Remove a card",
    description: "Remove a card from the board",
    parameters: object({ title: TITLE }, ["title"]),
  },
  list_cards: {
    title: "List the cards",
    description: "What cards are on the board, or in one of its columns",
    parameters: object({ column: COLUMN }),
    readOnly: true,
  },
  set_theme: {
    title: "Set the theme",
    description: "Set the page's theme, light or dark",
    parameters: object({ theme: { enum: ["light", "dark"] } }, ["theme"]),
    idempotent: true,
  },
  highlight: {
    title: "Highlight",
    description: "Point at a card or a column so that the user sees it",
    parameters: object({ target: TARGET }, ["target"]),
    idempotent: true,
  },
  fill_form: {
    title: "Fill in the form",
    description: "Fill in the contact form (name, email, seats, newsletter) without sending it",
    parameters: {
      ...object({
        name: { type: "string", maxLength: TITLE_CHARS },
        email: { type: "string", maxLength: TITLE_CHARS },
        seats: { type: "integer", minimum: 1, maximum: 8 },
        newsletter: { type: "boolean" },
      }),
      minProperties: 1,
    },
    idempotent: true,
  },
  read_page: {
    title: "Read the page",
    description: "Read what the page shows",
    parameters: object({}),
    readOnly: true,
  },
  set_goal: {
    title: "Set the goal",
    description: "Say above the board what its cards lead to",
    parameters: object({ goal: { type: "string", minLength: 1, maxLength: TITLE_CHARS } }, ["goal"]),
    idempotent: true,
    agent: "planner",
  },
  clear_board: {
    title: "Clear the board",
    description: "Remove every card from the board",
    parameters: object({}),
    approval: "always",
  },
  slow_task: {
    title: "Slow task",
    description: "Work slowly for some seconds and report progress",
    parameters: object({ seconds: { type: "integer", minimum: 1, maximum: 60, default: 6 } }),
    idempotent: true,
    timeoutMs: 90_000,
  },
  "*": {
    title: "Anything else",
    description: "Shows what arrived that no other tool takes",
  },
};

/** What the conversation calls a tool. */
export const titleOf = (/** @type {string} */ name) =>
  (Object.hasOwn(TOOLS, name) && TOOLS[name].title) || name;

/**
 * @param {Bridge} bridge
 * @param {Parts} parts
 */
export function registerTools(bridge, { board, columns, theme, booking, corner, goal }) {
  /** @type {Record<string, (args: any, call: CallInfo) => unknown>} */
  const handlers = {
    add_card({ title, column = "To do" }) {
      const added = board.add(title, column);
      columns.reveal(column);
      return added;
    },
    move_card({ title, column }) {
      const moved = board.move(title, column);
      columns.reveal(column);
      return moved;
    },
    remove_card: ({ title }) => board.remove(title),
    list_cards: ({ column }) => (column ? { [column]: board.titles(column) } : board.overview),
    set_theme(choice) {
      theme.choose(choice.theme);
      return { theme: theme.current };
    },
    highlight: ({ target }) => columns.highlight(target),
    fill_form: (values) => booking.fill(values),
    read_page: () => ({
      title: document.title,
      theme: theme.current,
      goal: goal.current,
      board: board.overview,
      form: booking.read(),
      unclaimed: corner.newest,
    }),
    set_goal: (wish) => goal.set(wish.goal),
    clear_board() {
      goal.set("");
      return board.clear();
    },
    slow_task: ({ seconds = 6 }, { signal, progress }) => workSlowly(seconds, signal, progress),
    "*": ({ toolName, args }) => corner.show(toolName, args),
  };

  for (const [name, options] of Object.entries(TOOLS)) bridge.tool(name, options, handlers[name]);
  bridge.context("board", "the titles of the cards on the page's board, by column", () => board.overview);
}

/** Between two reports of the slow task; the library sends at most ten a second anyway. */
const REPORT_MS = 200;

/**
 * Does nothing, slowly. Stops at once when nobody wants it any more.
 * @param {number} seconds
 * @param {AbortSignal} signal
 * @param {CallInfo["progress"]} progress
 */
async function workSlowly(seconds, signal, progress) {
  const steps = (seconds * 1_000) / REPORT_MS;
  for (let step = 1; step <= steps; step++) {
    await pause(REPORT_MS, signal);
    progress(step, steps, `${Math.floor((step * REPORT_MS) / 1_000)} of ${seconds} seconds`);
  }
  return { worked: seconds };
}

/**
 * Waits; rejects at once when the signal fires.
 * @param {number} ms
 * @param {AbortSignal} signal
 */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const stopped = () => (clearTimeout(timer), reject(signal.reason));
    const timer = setTimeout(() => (signal.removeEventListener("abort", stopped), resolve(null)), ms);
    signal.addEventListener("abort", stopped, { once: true });
  });
}

/**
 * The schema of an object with just these properties.
 * @param {Record<string, object>} properties
 * @param {string[]} [required]
 */
function object(properties, required = []) {
  return { type: "object", properties, required, additionalProperties: false };
}
