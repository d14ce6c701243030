/**
 * The questions to a human that are open here. Each is asked once of a handler, though the server asks
 * again after every reconnect; a new handler is asked what is still open. Without one they stay open,
 * for another tab.
 */

/** @import { Frame, Json } from "../core/protocol.js" */
/** @import { Host } from "./host.js" */

/**
 * @typedef {object} ApprovalRequest
 * @property {string} callId
 * @property {string} threadId
 * @property {string} runId
 * @property {string} name  of the tool
 * @property {Record<string, Json>} args
 * @property {string} digest
 * @property {string} [reason]  why it is asked
 * @property {number} expiresMs
 *
 * @typedef {object} ApprovalAnswer
 * @property {boolean} approved
 * @property {string} [reason]
 * @property {Record<string, Json>} [args]  edited
 * @property {boolean} [remember]  for this definition in this thread
 *
 * @typedef {(request: ApprovalRequest) => ApprovalAnswer | null | undefined | void
 *   | Promise<ApprovalAnswer | null | undefined | void>} ApprovalHandler  nothing: it is left open
 *
 * @typedef {ReturnType<typeof makeApprovals>} Approvals
 */

/** @param {Host} host */
export function makeApprovals(host) {
  /** @type {ApprovalHandler | undefined} */
  let handler;
  /** @type {Map<string, Frame>} */
  const open = new Map();

  /** @param {any} request  an `approval.request` */
  async function ask(request) {
    const { callId, digest } = request;
    try {
      const answer = await handler?.(request);
      if (!answer || !open.has(callId)) return;
      await host.command({
        ...answer,
        approved: answer.approved === true,
        type: "approval.answer",
        callId,
        digest,
      });
    } catch (error) {
      host.problem(error);
    }
  }

  return {
    /**
     * @param {ApprovalHandler} own  in place of the one before
     * @returns {() => void} takes it away again
     */
    add(own) {
      handler = own;
      open.forEach(ask);
      return () => {
        if (handler === own) handler = undefined;
      };
    },

    /** @param {Frame} request  an `approval.request` */
    take(request) {
      const { callId, digest } = request;
      if (open.get(callId)?.digest === digest) return;
      open.set(callId, request);
      ask(request);
    },

    /** @param {any} call  a `handspan.call` value: what it says of a call may close its question */
    told({ callId, state }) {
      if (state !== "waiting_approval") open.delete(callId);
    },
  };
}
