/**
 * What this page can do, and what the server has been told of it. Registrations of one tick go out as
 * one `tools.update`, as the difference; a component that unmounts and mounts again sends nothing
 * (C093, C098). Before anything that depends on them they are flushed at once (C097).
 */

import { HandspanError, LIMITS } from "../core/protocol.js";
import { toText } from "../core/values.js";

/** @import { Frame, Json } from "../core/protocol.js" */
/** @import { Host } from "./host.js" */

/**
 * @typedef {object} CallInfo  the second argument of a handler
 * @property {AbortSignal} signal  fires when nobody wants the result any more; its reason says why
 * @property {(progress?: number | Progress, total?: number, message?: string) => void} progress
 * @property {string} callId
 * @property {string} rawArgs  the model's text, with every digit
 * @property {number} depth
 * @property {number} attempt
 * @property {string} toolName  what was called; for "*" not the name of the tool
 * @property {string} threadId
 *
 * @typedef {{ progress?: number, total?: number, message?: string }} Progress
 *
 * @typedef {(args: any, call: CallInfo) => unknown} Handler
 *
 * @typedef {object} ToolOptions  *Source:* protocol.md 5
 * @property {string} description
 * @property {any} [parameters]  JSON Schema of an object, or a Standard Schema that offers one
 * @property {string} [title]
 * @property {any} [returns]  JSON Schema
 * @property {string} [agent]
 * @property {boolean} [available]
 * @property {boolean} [followUp]
 * @property {"never" | "always"} [approval]
 * @property {number} [timeoutMs]
 * @property {boolean} [readOnly]
 * @property {boolean} [idempotent]
 * @property {boolean} [consequential]
 * @property {boolean} [untrusted]
 * @property {boolean} [parallel]
 *
 * @typedef {ToolOptions & { name: string }} Tool
 *
 * @typedef {{ tool: Tool, text: string, handler: Handler }} Registration  `text`: the definition's JSON
 *
 * @typedef {object} Told
 * @property {string} text
 * @property {number} since  the revision it came with; Infinity: not known yet
 *
 * @typedef {ReturnType<typeof makeTools>} Tools
 */

/** @param {Host} host */
export function makeTools(host) {
  /** @type {Map<string, Registration>} */
  const own = new Map();
  /** @type {Map<string, Told>} */
  const told = new Map();
  /** In this document. */
  let welcomed = false;

  /**
   * Takes note that the server is told all of this; returns what it did not know.
   * @param {number} since
   */
  function mark(since) {
    const remove = [...told.keys()].filter((name) => !own.has(name) && told.delete(name));
    const news = [...own].filter(([name, { text }]) => told.get(name)?.text !== text);
    for (const [name, { text }] of news) told.set(name, { text, since });
    return { remove, news };
  }

  /** Tells the server what is new, if anything is and if there is a socket: else the hello will. */
  function flush() {
    if (!host.socket.ready()) return;
    const { remove, news } = mark(Infinity);
    const add = news.map(([, { tool }]) => tool);
    if (add[0] || remove[0]) update({ type: "tools.update", add, remove }, news.map(([name]) => told.get(name)));
  }

  /**
   * @param {Frame} command
   * @param {any[]} news  of type Told
   */
  async function update(command, news) {
    try {
      const verdict = await host.commands.send(command, false);
      for (const one of news) one.since = verdict?.revision ?? 0;
      hear(verdict);
    } catch (error) {
      for (const one of news) one.text = "";
      host.problem(error);
    }
  }

  /** @param {any} verdict */
  function hear(verdict) {
    for (const rejection of verdict?.rejected ?? []) host.problem(new HandspanError(rejection));
  }

  return {
    flush,

    /**
     * Registers, in place of what had the name.
     * @param {Tool} definition
     * @param {Handler} handler
     * @returns {() => void} takes it away again, unless it was replaced
     */
    add(definition, handler) {
      if (!handler) throw TypeError("no handler");
      const { name, parameters } = definition;
      const tool = { ...definition, parameters: schemaOf(parameters) };
      const text = /** @type {string} */ (toText(tool, LIMITS.frameBytes));
      const registration = { tool: JSON.parse(text), text, handler };
      own.set(name, registration);
      queueMicrotask(flush);
      return () => {
        if (own.get(name) === registration) own.delete(name);
        queueMicrotask(flush);
      };
    },

    /**
     * The tool of exactly this name, unless it has changed since `revision` (P13).
     * @param {string} name
     * @param {number} [revision]
     */
    find(name, revision = Infinity) {
      const registration = own.get(name);
      const { text, since = 0 } = told.get(name) ?? {};
      return registration?.text === text && since <= revision ? registration : undefined;
    },

    /** All of them, for a hello. What is new with it counts from there. */
    hello() {
      mark(0);
      return Array.from(own.values(), ({ tool }) => tool);
    },

    /**
     * The server's verdict on a hello. A new session counts revisions anew; to one that goes on in this
     * document it has said before what it refuses, and nobody wants to hear that at every reconnect.
     * @param {boolean} resumed
     * @param {any} verdict
     */
    welcome(resumed, verdict) {
      if (resumed && welcomed) return;
      welcomed = true;
      told.forEach((one) => (one.since = 0));
      hear(verdict);
    },
  };
}

/**
 * The JSON Schema in what was given as one.
 * @param {any} schema  JSON Schema, a Standard Schema that offers it (zod, valibot, arktype), or what
 *   turns into it
 * @returns {Json}
 */
const schemaOf = (schema) =>
  schema?.["~standard"]?.jsonSchema?.input({ target: "draft-2020-12" }) ?? schema?.toJSONSchema?.() ?? schema;
