/**
 * What is said to those who do not see the page. The conversation's log is not live by itself: an answer
 * that streams in would be read out piece by piece, or again from the start at every word. Instead each
 * message is said here once, when it is whole; so is how a call went, what is asked, how a run ended.
 */

import { byId, element } from "./dom.js";

/** Lines that stay behind for a reader who comes late. */
const KEPT = 3;

/** @returns {(text: string) => void} */
export function makeAnnouncer() {
  const home = byId("announcer");
  return (text) => {
    home.append(element("p", {}, text));
    while (home.children.length > KEPT) home.firstElementChild.remove();
  };
}
