// A page whose tools wait until they are told, and whose line holds back frames that a test names.
import { connect } from "/client/handspan.js";

const search = new URLSearchParams(location.search);
const held = new Set();
/** What was held back: to be let through, or lost with the socket. */
const kept = [];
const hellos = [];
const welcomes = [];
const errors = [];
const typeOf = (text) => JSON.parse(text).type;

class Line extends WebSocket {
  send(text) {
    if (typeOf(text) === "hello") hellos.push(JSON.parse(text));
    if (held.has(typeOf(text))) kept.push(() => super.send(text));
    else super.send(text);
  }

  set onmessage(hear) {
    super.onmessage = hear && ((event) => {
      if (typeOf(event.data) === "welcome") welcomes.push(JSON.parse(event.data));
      if (held.has(typeOf(event.data))) kept.push(() => hear(event));
      else hear(event);
    });
  }
}

const ran = {};
let free = false;
const waiting = [];

/** Counted for all documents of this browser; a tab that dies does not take its count along. */
function count(callId) {
  ran[callId] = (ran[callId] ?? 0) + 1;
  const key = `ran:${callId}`;
  localStorage[key] = Number(localStorage[key] ?? 0) + 1;
}

async function work(_, { callId }) {
  count(callId);
  if (!free) await new Promise((go) => waiting.push(go));
  return "done";
}

const bridge = connect({ threadId: search.get("thread"), url: search.get("url"), WebSocket: Line, backoff: () => 20 });
const approval = search.has("asks") ? "always" : "never";
bridge.tool("once", { description: "Must not run twice", approval }, work);
bridge.tool("repeat", { description: "May run twice", approval, idempotent: true }, work);
bridge.tool("first", { description: "Stands before the others" }, work);
bridge.onError(({ code, message }) => errors.push({ code, message }));

Object.assign(window, {
  bridge, ran, errors, kept, hellos, welcomes, waiting,
  hold: (type) => void held.add(type),
  /** What was held back is lost; from now on all goes through. */
  lose: () => (held.clear(), kept.splice(0)),
  /** What was held back goes on its way, and so does what follows. */
  pass: () => (held.clear(), kept.splice(0).forEach((go) => go())),
  letGo: () => ((free = true), waiting.splice(0).forEach((go) => go())),
  view: () => new Promise((resolve) => bridge.subscribe(resolve)()),
});
window.ready = true;
