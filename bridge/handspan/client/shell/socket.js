/**
 * One live socket, for as long as the bridge is open. Owns opening, the greeting, the heartbeat, and
 * what follows a close; knows frames only as far as they are about the connection itself. The sockets
 * of the past are deaf: whatever they still say or close with means nothing here (C098).
 *
 *     connecting -> open -> reconnecting -> open ... -> closed
 *
 * What it is down for says what brings it back: `waiting` for its next attempt it may be hurried (the
 * network is back, the tab is looked at); `parked` after 4409 it waits until the tab is used; `hidden`
 * in the browser's cache, until it is shown again.
 */

import { afterClose, backoffMs, HandspanError, HEARTBEAT_MS, SUBPROTOCOL } from "../core/protocol.js";
import { socketUrl } from "./page.js";

/** @import { Frame } from "../core/protocol.js" */

/**
 * @typedef {"connecting" | "open" | "reconnecting" | "closed"} Status
 *
 * @typedef {object} Wiring
 * @property {string} [url]
 * @property {typeof WebSocket} [WebSocket]
 * @property {any} [token]  a string, or a function asked at every connect
 * @property {(attempt: number) => number} [backoff]  milliseconds
 *
 * @typedef {object} Owner  who is told; none of these may throw, but `receive`
 * @property {() => unknown} recall  before each socket; it is waited for
 * @property {(token: any) => object} hello  the first frame
 * @property {() => void} ready  the first frame is sent: others may follow
 * @property {(frame: Frame) => void} receive
 * @property {() => void} lost  no socket any more, for now
 * @property {() => void} superseded  a newer page has the session
 * @property {(error: HandspanError) => void} over  for good
 * @property {(status: Status) => void} turn
 * @property {(error: unknown) => void} problem
 *
 * @typedef {ReturnType<typeof makeSocket>} Socket
 */

/**
 * @param {Wiring} wiring
 * @param {Owner} owner
 */
export function makeSocket(
  { url, token, WebSocket = globalThis.WebSocket, backoff = jittered },
  owner,
) {
  const address = socketUrl(url);
  /** @type {WebSocket | undefined} */
  let socket;
  /** Whether frames can be sent now. */
  let ready = false;
  /** Counts sockets; an opening that was overtaken while it waited for its token gives up. */
  let age = 0;
  /** Failures since the last welcome. */
  let attempt = 0;
  /** Why there is no socket. @type {string | undefined} */
  let down;
  /** Of the next attempt, or of the heartbeat. @type {any} */
  let timer;
  let heartbeatMs = HEARTBEAT_MS;
  /** What the server asks to wait besides. */
  let restMs = 0;
  /** The server's last word. @type {any} */
  let error;

  async function open() {
    letGo();
    const mine = age;
    try {
      const [shown] = await Promise.all([typeof token === "function" ? token() : token, owner.recall()]);
      if (mine === age) attach(new WebSocket(address, SUBPROTOCOL), shown);
    } catch (problem) {
      if (mine !== age) return;
      owner.problem(problem);
      retry();
    }
  }

  /**
   * @param {WebSocket} fresh
   * @param {any} token
   */
  function attach(fresh, token) {
    down = undefined;
    socket = fresh;
    socket.onopen = () => {
      fresh.send(JSON.stringify(owner.hello(token)));
      ready = true;
      owner.ready();
    };
    socket.onmessage = hear;
    socket.onclose = closed;
    listen();
  }

  /** @param {{ data: any }} message */
  function hear({ data }) {
    try {
      const frame = JSON.parse(data);
      take(frame);
      listen();
      owner.receive(frame);
    } catch (problem) {
      owner.problem(new HandspanError({ code: "bad_frame", message: String(problem) }));
    }
  }

  /**
   * The part of a frame that is about the connection.
   * @param {Frame} frame
   */
  function take(frame) {
    const { type } = frame;
    if (type === "error") error = frame;
    if (type === "goaway") restMs = frame.reconnectAfterMs;
    if (type === "ping") send('{"type":"pong"}');
    if (type !== "welcome") return;
    attempt = 0;
    heartbeatMs = frame.heartbeatMs;
    owner.turn("open");
  }

  /** From now on: nothing heard for two heartbeats means that nobody is there, whatever the socket believes. */
  function listen() {
    clearTimeout(timer);
    timer = setTimeout(retry, 2 * heartbeatMs);
  }

  /** @param {{ code: number }} event */
  function closed({ code }) {
    const verdict = afterClose(code);
    if (verdict === "waiting") return retry();
    if (verdict === "parked") {
      fall(verdict);
      return owner.superseded();
    }
    const why = new HandspanError({ code: "closed", ...error });
    if (!error) owner.problem(why);
    end(why);
  }

  function retry() {
    const delayMs = backoff(attempt++) + restMs;
    restMs = 0;
    fall("waiting");
    timer = setTimeout(open, delayMs);
  }

  /** @param {string} why */
  function fall(why) {
    letGo();
    down = why;
    owner.turn("reconnecting");
  }

  /** @param {number} [code] */
  function letGo(code) {
    const old = socket;
    clearTimeout(timer);
    age++;
    ready = false;
    socket = error = undefined;
    if (!old) return;
    old.onopen = old.onmessage = old.onclose = null;
    old.close(code);
    owner.lost();
  }

  /**
   * Whether it could be sent; what could not is the sender's to keep.
   * @param {string} text
   */
  function send(text) {
    if (ready) socket?.send(text);
    return ready;
  }

  /** @param {HandspanError} why */
  function end(why) {
    letGo(1000);
    owner.turn("closed");
    owner.over(why);
  }

  return {
    address,
    open,
    send,
    end,
    ready: () => ready,
    /**
     * Opens if it is down for one of these reasons: "waiting" when there is cause to believe that it
     * would work now, "parked" when the tab is used, "hidden" when the page is shown again.
     * @param {any[]} reasons
     */
    wake: (...reasons) => void (reasons.includes(down) && open()),

    /** The page is left. The socket goes without a word: the session must outlive it. */
    hide: () => fall("hidden"),
  };
}

/** @param {number} attempt */
const jittered = (attempt) => backoffMs(attempt, Math.random());
