/**
 * What the page wants its agent to know: named values, read whenever they are about to matter, and
 * sent when they differ from what the server has.
 */

import { HandspanError } from "../core/protocol.js";
import { read, toText } from "../core/values.js";

/** @import { ContextItem } from "../core/protocol.js" */
/** @import { Host } from "./host.js" */

/** @typedef {ReturnType<typeof makeContext>} Context */

/** @param {Host} host */
export function makeContext(host) {
  /** @type {Map<string, [description: string, value: unknown]>} */
  const items = new Map();
  /** The text that the server has. */
  let sent = "[]";

  /**
   * All of it, when it is not what the server has; to be sent now.
   * @returns {ContextItem[] | undefined}
   */
  function fresh() {
    const all = Array.from(items, ([name, [description, value]]) => ({
      name,
      description,
      value: read(() => (typeof value === "function" ? value() : value)),
    }));
    const text = toText(all, host.limits.contextBytes);
    if (!text) host.problem(new HandspanError({ code: "too_large", message: "context" }));
    else if (text !== sent) return JSON.parse((sent = text));
    return undefined;
  }

  return {
    fresh,

    /** All of it, for a hello. */
    hello() {
      sent = "[]";
      return fresh() ?? [];
    },

    /**
     * @param {string} name
     * @param {string} description
     * @param {unknown} value  or a function that returns it
     * @returns {() => void} takes it away again, unless it was replaced
     */
    add(name, description, value) {
      /** @type {[string, unknown]} */
      const item = [description, value];
      items.set(name, item);
      return () => void (items.get(name) === item && items.delete(name));
    },
  };
}
