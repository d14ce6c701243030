/**
 * The board as data: which cards there are and in which column. Owns the rules (how a card is addressed,
 * what cannot be done, and what is said then); knows no page, no agent and no tool.
 */

/** @typedef {"To do" | "Doing" | "Done"} Column */
/** @typedef {{ readonly id: number, readonly title: string, readonly column: Column }} Card */
/** @typedef {ReturnType<typeof makeBoard>} Board */

/** @type {readonly Column[]} */
export const COLUMNS = ["To do", "Doing", "Done"];

/** Longer ones are no title; it is the `maxLength` of the tool too. */
export const TITLE_CHARS = 80;

/** How a title may be addressed; the first way that fits any card decides. Never by guessing between two. */
const WAYS = [
  (/** @type {string} */ title, /** @type {string} */ asked) => title === asked,
  (/** @type {string} */ title, /** @type {string} */ asked) => title.startsWith(asked),
  (/** @type {string} */ title, /** @type {string} */ asked) => title.includes(asked),
];

/** @param {readonly (readonly [string, Column])[]} first  titles and columns of the cards it begins with */
export function makeBoard(first) {
  let nextId = 1;
  /** @type {readonly Card[]} */
  let cards = first.map(([title, column]) => ({ id: nextId++, title, column }));
  /** @type {Set<() => void>} */
  const listeners = new Set();

  /** @param {readonly Card[]} next */
  function change(next) {
    cards = next;
    listeners.forEach((listener) => listener());
  }

  /**
   * The card that is meant: by its whole title, else by its beginning, else by a part, whatever the case.
   * Throws when there is none, or more than one.
   * @param {string} asked
   * @returns {Card}
   */
  function find(asked) {
    const found = fitting(asked);
    if (found.length > 1) throw new Error(`"${asked}" may be ${listed(found)}: say which`);
    if (!found.length) throw new Error(`there is no card "${asked}"; there ${there(cards)}`);
    return found[0];
  }

  /** @param {string} asked */
  function fitting(asked) {
    const wanted = plain(asked);
    const ways = wanted ? WAYS.map((fits) => cards.filter(({ title }) => fits(plain(title), wanted))) : [];
    return ways.find((found) => found.length) ?? [];
  }

  /** @param {Column} column */
  const titles = (column) => cards.filter((card) => card.column === column).map((card) => card.title);

  return {
    find,
    titles,

    /** The cards, in the order in which they came to their columns. */
    get cards() {
      return cards;
    },

    /** @returns {Record<Column, string[]>} the titles by column */
    get overview() {
      return /** @type {any} */ (Object.fromEntries(COLUMNS.map((column) => [column, titles(column)])));
    },

    /**
     * Throws when there is a card of this title already: titles are how cards are addressed.
     * @param {string} title
     * @param {Column} column
     */
    add(title, column) {
      const clean = tidy(title);
      if (!clean) throw new Error("a card needs a title");
      const twin = cards.find((card) => plain(card.title) === plain(clean));
      if (twin) throw new Error(`there is already a card "${twin.title}", in ${twin.column}`);
      change([...cards, { id: nextId++, title: clean, column }]);
      return { added: clean, column };
    },

    /**
     * To the end of the column; a card that is there already stays where it is.
     * @param {string} asked
     * @param {Column} column
     */
    move(asked, column) {
      const card = find(asked);
      const moved = { moved: card.title, from: card.column, to: column };
      if (card.column !== column) change([...cards.filter((it) => it !== card), { ...card, column }]);
      return moved;
    },

    /** @param {string} asked */
    remove(asked) {
      const card = find(asked);
      change(cards.filter((it) => it !== card));
      return { removed: card.title, column: card.column };
    },

    clear() {
      const removed = cards.length;
      change([]);
      return { removed };
    },

    /** @param {() => void} listener  told after every change */
    subscribe(listener) {
      listeners.add(listener);
    },
  };
}

/**
 * The column of this name, however it is written: "To do", "todo", "DONE".
 * @param {string} asked
 */
export const columnNamed = (asked) =>
  COLUMNS.find((column) => plain(column).replace(" ", "") === plain(asked).replaceAll(" ", ""));

/** @param {string} text */
const tidy = (text) => text.replace(/\s+/g, " ").trim();

/** @param {string} text  as it is compared */
const plain = (text) => tidy(text).toLowerCase();

/** @param {readonly Card[]} cards */
const listed = (cards) => cards.map(({ title }) => `"${title}"`).join(", ");

/** @param {readonly Card[]} cards */
const there = (cards) =>
  cards.length ? `${cards.length === 1 ? "is" : "are"} ${listed(cards)}` : "are none at all";
