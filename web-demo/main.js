/**
 * A bare page that gives an agent hands: five tools over the DOM, one that takes what nobody has, the
 * conversation as it streams in, and buttons. Streamed text is shown as text, never as markup.
 */

import { connect } from "/client/handspan.js";

const $ = (/** @type {string} */ id) => /** @type {any} */ (document.getElementById(id));
const search = new URLSearchParams(location.search);
const bridge = connect({
  threadId: search.get("thread") ?? undefined,
  url: search.get("url") ?? undefined,
});

const object = (/** @type {Record<string, any>} */ properties) => ({
  type: "object",
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});

// ---- tools ---------------------------------------------------------------------------------------

bridge.tool("set_theme", {
  description: "Make the page light or dark",
  parameters: object({ theme: { enum: ["light", "dark"] } }),
}, ({ theme }) => {
  document.documentElement.dataset.theme = theme;
  return { theme };
});

bridge.tool("add_item", {
  description: "Add an item to the list",
  parameters: object({ title: { type: "string", minLength: 1, maxLength: 200 } }),
}, ({ title }) => {
  const item = document.createElement("li");
  item.textContent = title;
  $("items").append(item);
  return { items: items() };
});

bridge.tool("remove_item", {
  description: "Remove the item of this title from the list",
  parameters: object({ title: { type: "string" } }),
}, ({ title }) => {
  const item = [...$("items").children].find((each) => each.textContent === title);
  if (!item) throw new Error(`there is no item "${title}"`);
  item.remove();
  return { items: items() };
});

bridge.tool("list_items", { description: "The items of the list", readOnly: true }, items);

bridge.tool("slow_task", {
  description: "Work for a few seconds and tell how far it is",
  timeoutMs: 60_000,
}, async (_, { signal, progress }) => {
  for (let step = 1; step <= 30; step++) {
    await pause(200, signal);
    progress(step, 30, "working");
  }
  return "done";
});

bridge.tool("*", { description: "Takes what no tool has" }, ({ toolName, args }) => {
  $("unknown").textContent = `nobody has ${toolName}, asked with ${JSON.stringify(args)}`;
  return { ignored: toolName };
});

bridge.context("list", "the titles of the items on the page", items);

function items() {
  return [...$("items").children].map((each) => each.textContent);
}

/** Waits, unless the signal fires: then it rejects at once. */
function pause(/** @type {number} */ ms, /** @type {AbortSignal} */ signal) {
  return new Promise((resolve, reject) => {
    const stopped = () => (clearTimeout(timer), reject(signal.reason));
    const timer = setTimeout(() => (signal.removeEventListener("abort", stopped), resolve(null)), ms);
    signal.addEventListener("abort", stopped, { once: true });
  });
}

// ---- controls ------------------------------------------------------------------------------------

$("form").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  const text = $("message").value.trim();
  if (!text) return;
  $("message").value = "";
  tell(bridge.run(text).finished);
});
$("stop").addEventListener("click", () => bridge.abort());
$("dark").addEventListener("click", () => tell(bridge.runTool("set_theme", { theme: "dark" })));
$("light").addEventListener("click", () =>
  tell(bridge.runTool("set_theme", { theme: "light" }, { followUp: true })));

bridge.onError(({ code, message }) => note(`${code}: ${message}`));

/** What was refused is said on the page. */
function tell(/** @type {Promise<any>} */ promise) {
  promise.catch(({ code, message }) => note(`${code}: ${message}`));
}

function note(/** @type {string} */ text) {
  $("unknown").textContent = text;
}

// ---- the conversation ----------------------------------------------------------------------------

bridge.subscribe(({ messages, run, calls, status, lastRun }) => {
  $("status").textContent = run ? `${status}, working` : status;
  document.body.dataset.status = status;
  document.body.dataset.lastRun = lastRun?.result?.reason ?? lastRun?.error?.code ?? "";
  const states = new Map(calls.map((call) => [call.callId, call]));
  const results = new Map(messages.filter((m) => m.role === "tool").map((m) => [m.toolCallId, m]));
  $("log").replaceChildren(...messages.flatMap((message) => shown(message, states, results)));
  $("log").scrollTop = $("log").scrollHeight;
});

function shown(/** @type {any} */ message, /** @type {Map<string, any>} */ states, /** @type {Map<string, any>} */ results) {
  const parts = [];
  if (message.role === "user" || message.role === "assistant") {
    if (typeof message.content === "string" && message.content) {
      parts.push(line(`said ${message.role}`, message.content));
    }
  }
  for (const call of message.toolCalls ?? []) {
    const state = states.get(call.id);
    const result = results.get(call.id);
    const how = result?.metadata?.handspan?.outcome ?? told(state);
    const content = typeof result?.content === "string" ? ` → ${result.content}` : "";
    parts.push(line("call", `${call.function.name}(${call.function.arguments}) ${how}${content}`));
  }
  return parts;
}

function told(/** @type {any} */ state) {
  if (!state) return "";
  return state.progress === undefined ? state.state : `${state.progress} of ${state.total ?? "?"}`;
}

function line(/** @type {string} */ kind, /** @type {string} */ text) {
  const element = document.createElement("p");
  element.className = kind;
  element.textContent = text;
  return element;
}
