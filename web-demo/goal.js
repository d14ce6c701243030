/**
 * What the cards lead to, as the planner says it: a line above the board, while there is one.
 */

import { byId } from "./dom.js";

/** @typedef {ReturnType<typeof makeGoal>} Goal */

export function makeGoal() {
  const line = byId("goal");
  const words = line.querySelector("strong");

  return {
    /** @returns {string | undefined} none: nobody has set one */
    get current() {
      return words.textContent || undefined;
    },

    /** @param {string} goal  "": none any more */
    set(goal) {
      words.textContent = goal;
      line.hidden = !goal;
      return { goal };
    },
  };
}
