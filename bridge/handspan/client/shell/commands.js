/**
 * Commands on their way: each has an id of its own, and an answer that is waited for. A command that
 * is kept goes over every new socket again until it is answered; the server knows it by its id and
 * carries it out once. The others say what the next hello will say anyway: they are sent only when
 * there is a socket, and forgotten with it; their promise then comes to `undefined`. Nobody has to look
 * at a promise.
 */

import { HandspanError } from "../core/protocol.js";
import { toText } from "../core/values.js";

/** @import { Frame } from "../core/protocol.js" */
/** @import { Host } from "./host.js" */

/**
 * @typedef {object} Waiting
 * @property {string} text
 * @property {boolean} keep
 * @property {(result?: any) => void} resolve
 * @property {(error: HandspanError) => void} reject
 *
 * @typedef {ReturnType<typeof makeCommands>} Commands
 */

/** @param {Host} host */
export function makeCommands(host) {
  /** @type {Map<string, Waiting>} */
  const waiting = new Map();
  let count = 0;
  /** Why there will be no answers any more. @type {HandspanError | undefined} */
  let end;

  const write = (/** @type {Waiting} */ { text }) => host.socket.send(text);

  return {

    /**
     * The reply's result; rejects with the reply's code. What the command says is converted to JSON.
     * @param {Frame} command  without its id
     * @param {boolean} [keep]
     * @returns {Promise<any>}
     */
    send(command, keep = true) {
      const id = String(count++);
      const text = toText({ ...command, id }, host.limits.frameBytes);
      const answered = new Promise((resolve, reject) => {
        if (end) throw end;
        if (!text) throw new HandspanError({ code: "too_large" });
        waiting.set(id, { text, keep, resolve, reject });
        host.socket.send(text);
      });
      answered.catch(() => {});
      return answered;
    },

    /** A new socket has been greeted: what had no answer goes again, in its order. */
    resend: () => waiting.forEach(write),

    /** The socket is gone. */
    lost() {
      for (const [id, { keep, resolve }] of waiting) if (!keep && waiting.delete(id)) resolve();
    },

    /** @param {Frame} reply */
    settle({ id, result, error }) {
      const one = waiting.get(id);
      waiting.delete(id);
      if (error) one?.reject(new HandspanError(error));
      else one?.resolve(result ?? {});
    },

    /** @param {HandspanError} error */
    fail(error) {
      end = error;
      waiting.forEach(({ reject }) => reject(error));
    },
  };
}
