/**
 * Handspan in a page: register functions as tools, ask the agent, see the answer stream in.
 *
 *     const bridge = connect();
 *     bridge.tool("set_theme", { description: "Set the theme", parameters: {...} }, ({ theme }) => {...});
 *     const run = bridge.run("make it dark");
 *     for await (const event of run) ...
 *
 * This is the public face; the map of what is behind it is in README.md.
 */

import { contents } from "./shell/calls.js";
import { makeConversation } from "./shell/conversation.js";
import { makeHost } from "./shell/host.js";
import { threadIdOfTab } from "./shell/page.js";

/** @import { Options } from "./shell/host.js" */
/** @import { ApprovalHandler } from "./shell/approvals.js" */
/** @import { Conversation } from "./shell/conversation.js" */
/** @import { Handler, Tool, ToolOptions } from "./shell/tools.js" */

export { HandspanError } from "./core/protocol.js";

/**
 * @typedef {object} BridgeExtras
 * @property {((name: string, definition: ToolOptions, handler: Handler) => () => void)
 *   & ((definition: Tool, handler: Handler) => () => void)} tool
 *   Registers a tool, in place of one that had its name; "*" gets the calls that nobody else has, as
 *   `{ toolName, args }`. Returns what unregisters it.
 * @property {(name: string, description: string, value: unknown) => () => void} context
 *   Tells the agent about the page: a value, or a function that is read before each run and each
 *   result. Returns what takes it away again.
 * @property {(handler: ApprovalHandler) => () => void} onApproval
 *   Answers when a human has to agree to a call. Returns what takes it away again.
 * @property {(listener: (error: any) => void) => () => void} onError
 *   Hears what went wrong and nobody waits for, as something with `code` and `message`; without a
 *   listener it goes to the console. Returns what ends it.
 * @property {(threadId: string) => Conversation} thread  Another conversation on the same socket.
 * @property {() => void} close
 *   Ends everything. The server may forget the session; what is still waited for rejects with "closed".
 *
 * @typedef {Omit<Conversation, "close"> & BridgeExtras} Bridge  the page's bridge, and its own conversation
 */

/**
 * A handler's result made of AG-UI parts (text, images, ...). A plain array stays data.
 * @param {readonly any[]} parts  e.g. `{ type: "image", source: { type: "data", value, mimeType } }`
 */
export function content(parts) {
  const own = [...parts];
  contents.add(own);
  return own;
}

/**
 * Opens a bridge to the server. Tools and context that are registered in the same tick are known to the
 * server before anything runs.
 * @param {Options} [options]
 * @returns {Bridge}
 */
export function connect(options = {}) {
  const host = makeHost(options);
  const own = makeConversation(host, options.threadId ?? threadIdOfTab());

  return /** @type {any} */ (Object.assign(own, {
    tool: (/** @type {any} */ name, /** @type {any} */ definition, /** @type {Handler} */ handler) =>
      typeof name === "string"
        ? host.tools.add({ ...definition, name }, handler)
        : host.tools.add(name, definition),
    context: host.context.add,
    onApproval: host.approvals.add,
    onError(/** @type {(error: any) => void} */ listener) {
      host.errorListeners.add(listener);
      return () => void host.errorListeners.delete(listener);
    },
    thread: (/** @type {string} */ threadId) =>
      host.threads.get(threadId)?.face ?? makeConversation(host, threadId),
    close: host.close,
  }));
}
