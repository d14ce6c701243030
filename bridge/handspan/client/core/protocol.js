/**
 * The page's side of the contract: names, versions, the shapes of frames, what a close code means.
 * Whatever both ends must agree on and a page needs stands here; `protocol/README.md` explains it.
 * No behaviour but pure verdicts. Everything in `core/` may import this; this imports nothing.
 */

export const PROTOCOL = 1;
export const SUBPROTOCOL = "handspan.v1";
export const CLIENT = { name: "handspan-js", version: "0.1.0" };

/** Until a welcome says otherwise. *Source:* behaviour.md 6. */
export const LIMITS = { frameBytes: 2 ** 21, resultBytes: 2 ** 20, contextBytes: 2 ** 18 };
export const HEARTBEAT_MS = 20_000;

/** At most one `tool.progress` a call in this time, the last wins. *Source:* protocol.md 1. */
export const PROGRESS_MS = 100;

/** A failure's text is cut at this for the model anyway. *Source:* behaviour.md 3. */
export const ERROR_CHARS = 2_000;

/** What `error.code` of a page may be. *Source:* protocol.md 8. */
export const ERROR_CODE = /^[a-z0-9_]{1,64}$/;

/**
 * @typedef {any} Json  Any JSON value.
 * @typedef {{ type: string, [key: string]: any }} Frame
 * @typedef {{ type: string, [key: string]: any }} AgUiEvent
 * @typedef {{ id: string, role: string, content?: any, toolCalls?: ToolCall[], [key: string]: any }} Message
 * @typedef {{ name: string, arguments: string }} FunctionCall
 * @typedef {{ id: string, type: "function", function: FunctionCall, encryptedValue?: string }} ToolCall
 * @typedef {{ op: string, path: string, from?: string, value?: Json }} PatchOperation  RFC 6902
 * @typedef {{ name: string, description: string, value: Json }} ContextItem
 */

/** What goes wrong on the way, by stable `code`; texts are for people. */
export class HandspanError extends Error {
  name = "HandspanError";
  code = "";

  /** @param {{ code: string, message?: string, [more: string]: any }} fields  e.g. also a `path` */
  constructor(fields) {
    super(fields.code);
    Object.assign(this, fields);
  }
}

/**
 * What a page does when its socket closed with `code`: wait and try again, stay down until the tab is
 * used and open a new session then, or give up. 1008 is no code of ours: some proxy's policy said no.
 * *Source:* protocol.md 7, C144.
 * @param {any} code  a number
 * @returns {"waiting" | "parked" | "over"}
 */
export const afterClose = (code) =>
  code === 4409 ? "parked" : /^(1008|300[03]|4[5-9]..)$/.test(code) ? "over" : "waiting";

/**
 * Full jitter: anything up to 250 ms, 500 ms, 1 s ... 15 s, so that a thousand pages of one
 * restarted server do not come back as one.
 * @param {number} attempt  0 for the first
 * @param {number} chance  0 <= chance < 1
 */
export const backoffMs = (attempt, chance) => chance * Math.min(15_000, 250 * 2 ** attempt);
