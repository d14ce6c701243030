/**
 * The browser as far as the library touches it: its events, its storage, its dice, its task queue.
 * Everything here also works where there is no page (Node, a worker): what is missing does nothing.
 */

/** @type {any} */
const browser = globalThis;

/**
 * An id that nobody can guess: 128 random bits. (`crypto.randomUUID` needs a secure context.)
 * @param {string} kind
 */
export const randomId = (kind) =>
  `${kind}-${crypto.getRandomValues(new Uint32Array(4)).join("")}`;

/** The conversation of this tab: made at random, and kept as long as the tab is. */
export function threadIdOfTab() {
  const fresh = randomId("t");
  try {
    return (browser.sessionStorage["handspan.thread"] ??= fresh);
  } catch {
    return fresh;
  }
}

/**
 * The socket's address: ws for http, and the page's own origin when none is named.
 * @param {string} [url]
 */
export function socketUrl(url = "/") {
  const address = new URL(url, browser.location?.href);
  address.protocol = address.protocol.replace("http", "ws");
  address.hash = "";
  return address.href;
}

export const isVisible = () => browser.document?.visibilityState !== "hidden";

/**
 * Lets everything that is queued now happen first. Two rounds, because a framework commits in one task
 * and runs its effects (which register tools) in another that the first one queues. No timer: those
 * are slowed down to a second in a hidden tab (C092).
 */
export const macrotask = () => round().then(round);

/** @returns {Promise<unknown>} */
const round = () =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => resolve(port1.close());
    port2.postMessage(0);
  });
