// A page for the browser tests: a few tools whose executions are counted, and what they saw.
import { connect } from "/client/handspan.js";

const ran = {};
const count = (name) => (ran[name] = (ran[name] ?? 0) + 1);
const search = new URLSearchParams(location.search);

const open = (threadId) => connect({ threadId, url: search.get("url") ?? undefined, backoff: () => 20 });

function furnish(bridge) {
  bridge.tool("add", {
    description: "Add a line",
    parameters: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  }, ({ text }) => {
    count("add");
    const line = document.createElement("li");
    line.textContent = text;
    document.getElementById("list").append(line);
    return { lines: document.getElementById("list").children.length };
  });
  bridge.tool("title", { description: "Read the title", readOnly: true }, () => (count("title"), document.title));
  bridge.tool("slow", { description: "Wait until told" }, (_, { signal }) => new Promise((resolve, reject) => {
    count("slow");
    window.finish = resolve;
    signal.addEventListener("abort", () => {
      window.abortedAt = performance.now();
      reject(signal.reason);
    });
  }));
  bridge.tool("odd", {
    description: "Return an odd value",
    parameters: { type: "object", properties: { kind: { type: "string" } }, required: ["kind"] },
  }, ({ kind }) => (count("odd"), odd[kind]()));
  bridge.tool("*", { description: "Anything else" }, ({ toolName, args }) => (count("*"), { toolName, args }));
  return bridge;
}

const circle = {};
circle.self = circle;
const odd = {
  undefined: () => undefined,
  date: () => new Date(0),
  map: () => new Map([["a", 1]]),
  set: () => new Set([1, 2]),
  bigint: () => 12345678901234567890n,
  circular: () => circle,
  element: () => document.getElementById("list"),
  function: () => () => 1,
  symbol: () => Symbol("x"),
  error: () => new Error("an error as a value"),
  nan: () => NaN,
  members: () => ({ a: undefined, b: [undefined, () => 1] }),
  throws_empty: () => { throw ""; },
  throws_undefined: () => { throw undefined; },
  rejects: () => Promise.reject(new TypeError("no")),
};

const errors = [];
const bridge = search.has("bare") ? undefined : furnish(open(search.get("thread") ?? "t"));
bridge?.onError(({ code, message, name }) => errors.push({ code, message, name }));

Object.assign(window, {
  ran, odd, errors, bridge, open, furnish,
  view: () => new Promise((resolve) => bridge.subscribe(resolve)()),
  until: (test) => new Promise((resolve) => {
    const stop = bridge.subscribe((view) => {
      if (!test(view)) return;
      resolve(view);
      queueMicrotask(() => stop());
    });
  }),
});
window.ready = true;
