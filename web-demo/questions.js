/**
 * Questions to the visitor: may the agent do this? Each stands in the row of its call until it is
 * answered, here, in another tab, by the clock or by Stop. The focus goes to the question, not to one of
 * its buttons, so that a key that was meant for something else answers nothing; and it stays where it is
 * while somebody is writing.
 */

import { button, byId, element } from "./dom.js";
import { titleOf } from "./tools.js";

/** @import { Bridge } from "/client/handspan.js" */
/** @import { ApprovalRequest } from "/client/shell/approvals.js" */
/** @import { CallState } from "./entries.js" */

/** @typedef {ReturnType<typeof makeQuestions>} Questions */

/**
 * @param {Bridge} bridge
 * @param {(text: string) => void} announce
 */
export function makeQuestions(bridge, announce) {
  const message = byId("message");
  /** By call. @type {Map<string, { group: HTMLElement, answer: (approved?: boolean) => void }>} */
  const open = new Map();
  /** Calls that this visitor did not allow. @type {Set<string>} */
  const declined = new Set();
  /** Told when one has come or was answered here. */
  let changed = () => {};

  bridge.onApproval(async (request) => {
    close(request.callId);
    declined.delete(request.callId);
    const answered = new Promise((answer) => open.set(request.callId, { group: drawn(request), answer }));
    changed();
    const approved = await answered;
    return typeof approved === "boolean" ? { approved } : undefined;
  });

  /** @param {ApprovalRequest} request */
  function drawn({ callId, name }) {
    const title = titleOf(name);
    const answer = (/** @type {boolean} */ approved) => () => {
      if (!approved) declined.add(callId);
      close(callId, approved);
      changed();
    };
    return element(
      "div",
      { class: "question", role: "group", "aria-label": `${title}?`, tabindex: -1 },
      element("p", {}, `${title}? It is done only if you allow it.`),
      button("Allow", answer(true), { class: "primary" }),
      button("Decline", answer(false)),
    );
  }

  /**
   * @param {string} callId
   * @param {boolean} [approved]  none: it was settled elsewhere
   */
  function close(callId, approved) {
    const question = open.get(callId);
    if (!question) return;
    const focused = question.group.contains(document.activeElement);
    open.delete(callId);
    question.group.remove();
    question.answer(approved);
    if (focused) message.focus();
  }

  return {
    close,

    /** @param {() => void} listener  told when one has come, or was answered here */
    onChange(listener) {
      changed = listener;
    },

    /**
     * How it stands with a call that needs leave, as far as this page can tell: every page is asked what is
     * open, so where no question is, somebody has allowed it.
     * @param {string} callId
     * @returns {CallState}
     */
    stateOf: (callId) => (open.has(callId) ? "asking" : declined.has(callId) ? "waiting" : "allowed"),

    /**
     * Puts the question about this call into its row, if there is one and it is not there yet.
     * @param {string} callId
     * @param {HTMLElement} row
     */
    place(callId, row) {
      const { group } = open.get(callId) ?? {};
      if (!group || group.parentElement === row) return;
      row.append(group);
      announce(`${group.ariaLabel} Allow or decline.`);
      if (!isWriting()) group.focus();
    },
  };
}

/** Whether somebody is in the middle of a text. */
const isWriting = () => Boolean(/** @type {any} */ (document.activeElement)?.value);
