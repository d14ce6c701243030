/**
 * The board as it is seen: draws the cards into their columns, lets a person do what an agent can, and
 * points at what is talked about. A card keeps its element for as long as it is on the board, and the
 * focus stays where it was, whoever moved the card. What a person did is announced; what an agent did is
 * told by the conversation.
 */

import { COLUMNS, columnNamed } from "./board.js";
import { button, byId, element, isStill } from "./dom.js";

/** @import { Board, Card, Column } from "./board.js" */

/** How long something stays pointed at: long enough to look up from the conversation and find it. */
const POINTED_MS = 6_000;

/** A card's way to its new place; short enough not to be waited for. */
const MOVE_MS = 240;

/** @type {Record<Column, { list: HTMLElement, section: HTMLElement, count: HTMLElement }>} */
const HOMES = {
  "To do": homeAt("todo"),
  "Doing": homeAt("doing"),
  "Done": homeAt("done"),
};

/** @param {string} id */
function homeAt(id) {
  const section = byId(id);
  return { section, list: section.querySelector("ul"), count: section.querySelector(".count") };
}

/**
 * @param {Board} board
 * @param {(text: string) => void} announce
 */
export function showColumns(board, announce) {
  /** @type {Map<number, HTMLLIElement>} */
  const elements = new Map();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let pointing;

  function draw() {
    const held = heldCard();
    const places = new Map([...elements.values()].map((each) => [each, each.getBoundingClientRect()]));
    for (const [id, card] of elements) if (!board.cards.some((it) => it.id === id)) drop(id, card);
    for (const column of COLUMNS) fill(column, board.cards.filter((card) => card.column === column));
    places.forEach(glide);
    if (held) hold(held);
  }

  /**
   * @param {Column} column
   * @param {Card[]} cards
   */
  function fill(column, cards) {
    const { list, section, count } = HOMES[column];
    cards.forEach((card, at) => {
      const own = elements.get(card.id) ?? appear(card);
      if (own.dataset.column !== column) furnish(own, card);
      if (list.children[at] !== own) list.insertBefore(own, list.children[at] ?? null);
    });
    count.textContent = String(cards.length);
    section.toggleAttribute("data-empty", !cards.length);
  }

  /** @param {Card} card */
  function appear(card) {
    const own = element("li", { class: "card", "data-card": card.id }, element("span", {}, card.title));
    own.append(element("span", { class: "actions" }));
    elements.set(card.id, own);
    return own;
  }

  /**
   * Gives a card the buttons that make sense in its column.
   * @param {HTMLElement} own
   * @param {Card} card
   */
  function furnish(own, { title, column }) {
    const [before, after] = [COLUMNS[COLUMNS.indexOf(column) - 1], COLUMNS[COLUMNS.indexOf(column) + 1]];
    const move = (/** @type {Column} */ to) => () => {
      board.move(title, to);
      announce(`${title}: moved to ${to}`);
    };
    own.dataset.column = column;
    own.lastElementChild?.replaceChildren(
      ...(before ? [small("back", `Move "${title}" to ${before}`, move(before))] : []),
      ...(after ? [small("forth", `Move "${title}" to ${after}`, move(after))] : []),
      small("remove", `Remove "${title}"`, () => remove(title)),
    );
  }

  /** @param {string} title */
  function remove(title) {
    board.remove(title);
    announce(`${title}: removed`);
  }

  /**
   * @param {number} id
   * @param {HTMLElement} own
   */
  function drop(id, own) {
    elements.delete(id);
    own.remove();
  }

  /**
   * Puts the focus back where it was: on the same card, else where the next card is, else on the box for
   * a new one. Where a card cannot be moved further, on the way back: never on Remove by accident.
   * @param {Held} held
   */
  function hold({ id, action, list, next }) {
    const own = elements.get(id) ?? next ?? list.lastElementChild;
    const same = own?.querySelector(`[data-action="${action}"]`) ?? own?.querySelector("button");
    /** @type {HTMLElement} */ (same ?? byId("new-card")).focus();
  }

  /**
   * Points at an element: brings it into view and rings it for a while.
   * @param {HTMLElement} one
   */
  function pointAt(one) {
    clearTimeout(pointing);
    for (const other of document.querySelectorAll("[data-pointed]")) other.removeAttribute("data-pointed");
    one.setAttribute("data-pointed", "");
    one.scrollIntoView({ block: "nearest", inline: "nearest", behavior: isStill() ? "auto" : "smooth" });
    pointing = setTimeout(() => one.removeAttribute("data-pointed"), POINTED_MS);
  }

  board.subscribe(draw);
  draw();

  return {
    /**
     * Points at a column of that name, else at the card that is meant.
     * @param {string} asked
     */
    highlight(asked) {
      const column = columnNamed(asked);
      if (column) {
        pointAt(HOMES[column].section);
        return { highlighted: column };
      }
      const { id, title } = board.find(asked);
      pointAt(/** @type {HTMLElement} */ (elements.get(id)));
      return { highlighted: title };
    },

    /**
     * On a narrow screen the columns lie side by side beyond its edge: shows this one. Leaves the page
     * itself where it is.
     * @param {Column} column
     */
    reveal(column) {
      const { section } = HOMES[column];
      section.parentElement?.scrollTo({
        left: section.offsetLeft - section.parentElement.offsetLeft,
        behavior: isStill() ? "auto" : "smooth",
      });
    },
  };
}

/**
 * A card's button: an icon, its name for those who do not see it.
 * @param {"back" | "forth" | "remove"} action
 * @param {string} name
 * @param {() => void} press
 */
const small = (action, name, press) => button(name, press, { icon: action, "data-action": action });

/** @typedef {{ id: number, action?: string, list: Element, next: Element | null }} Held */

/**
 * The card that has the focus, which of its buttons, and what follows the card.
 * @returns {Held | undefined}
 */
function heldCard() {
  const focused = document.activeElement;
  const own = focused?.closest(".card");
  if (!(focused instanceof HTMLElement && own instanceof HTMLElement && own.parentElement)) return undefined;
  const { action } = focused.dataset;
  return { id: Number(own.dataset.card), action, list: own.parentElement, next: own.nextElementSibling };
}

/**
 * Lets a card glide from where it was to where it is.
 * @param {DOMRect} from
 * @param {HTMLElement} card
 */
function glide(from, card) {
  if (isStill() || !card.isConnected) return;
  const to = card.getBoundingClientRect();
  const [x, y] = [from.x - to.x, from.y - to.y];
  if (!x && !y) return;
  const there = { transform: `translate(${x}px, ${y}px)` };
  card.animate([there, { transform: "none" }], { duration: MOVE_MS, easing: "ease-out" });
}
