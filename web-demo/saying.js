/**
 * What the visitor says, a message at a time. Until its run begins a message waits, visibly, and can be
 * taken back; when the run ends, the end stands behind what the run said. A message that never became part
 * of the conversation is not lost: it comes back into the box, or into a note when the box is taken.
 */

import { byId } from "./dom.js";

/** @import { Bridge } from "/client/handspan.js" */
/** @import { AgUiEvent } from "/client/core/protocol.js" */

/** @typedef {ReturnType<typeof makeSaying>} Saying */

/**
 * @param {Bridge} bridge
 * @param {ReturnType<typeof import("./chat.js").makeChat>} chat
 */
export function makeSaying(bridge, chat) {
  const message = byId("message");
  /** Messages that are not part of the conversation yet. */
  let waiting = 0;
  /** Told when that number changes. */
  let changed = () => {};

  /** @param {string} text */
  async function say(text) {
    const run = bridge.run(text, { ifBusy: "queue" });
    const known = bridge.messages.length;
    const leave = chat.wait(text, () => {
      run.abort();
      arrive();
      if (!message.value) message.value = text;
      message.focus();
    });
    let waits = true;
    function arrive() {
      if (!waits) return;
      waits = false;
      leave();
      count(-1);
    }
    count(1);
    try {
      await follow(run, arrive);
      const isLost = (await run.finished).reason === "lost";
      const isThere = !waits || bridge.messages.slice(known).some(({ content }) => content === text);
      if (isLost && isThere) chat.note("the server no longer knows this run");
      else if (isLost) giveBack(text, "the server was started anew before its turn came");
    } catch (error) {
      if (waits) giveBack(text, why(error));
    } finally {
      arrive();
    }
  }

  /**
   * Sees a run through to its end.
   * @param {ReturnType<Bridge["run"]>} run
   * @param {() => void} begin
   */
  async function follow(run, begin) {
    /** Of the messages that the run brought. @type {Set<string>} */
    const ids = new Set();
    for await (const event of run) {
      begin();
      idsIn(event).forEach((id) => ids.add(id));
      const { type, result, message, code } = event;
      const error = type === "RUN_ERROR" ? { message, code } : undefined;
      if (!error && type !== "RUN_FINISHED") continue;
      chat.ended({ runId: run.id, result, error }, bridge.messages.findLast(({ id }) => ids.has(id))?.id);
    }
  }

  /**
   * @param {string} text
   * @param {string} reason
   */
  function giveBack(text, reason) {
    const isFree = !message.value;
    if (isFree) message.value = text;
    chat.note(`not carried out: ${reason}. ${isFree ? "It is in the box again." : `You had said: ${text}`}`);
  }

  /** @param {number} more */
  function count(more) {
    waiting += more;
    changed();
  }

  return {
    say,

    /** Whether something waits. */
    get isWaiting() {
      return waiting > 0;
    },

    /** @param {() => void} listener  told when a message begins to wait, or ends to */
    onChange(listener) {
      changed = listener;
    },
  };
}

/** Why a command was not taken, in words. @param {any} error */
export const why = ({ code, message }) => message || code;

/**
 * The ids that an event names, among them those of the messages that it makes.
 * @param {AgUiEvent} event
 * @returns {string[]}
 */
function idsIn({ input, messageId, parentMessageId, toolCallId }) {
  const brought = (input?.messages ?? []).map((/** @type {{ id: string }} */ { id }) => id);
  return [...brought, messageId, parentMessageId, toolCallId].filter(Boolean);
}
