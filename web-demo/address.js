/**
 * What the page's address asks for: `?thread=` names a conversation, `?url=` another server. What cannot be
 * meant is left out, with a word about it: the page goes on with its own.
 */

/** What may name a conversation (protocol/README.md, ids). */
const THREAD_ID = /^[A-Za-z0-9_.:-]{1,128}$/;

const SCHEMES = ["http:", "https:", "ws:", "wss:"];

/** As much of a wrong value as is told. */
const TOLD_CHARS = 60;

/**
 * @param {{ search: string, href: string }} location
 * @returns {{ threadId?: string, url?: string, problems: string[] }}
 */
export function readAddress({ search, href }) {
  const asked = new URLSearchParams(search);
  /** @type {string[]} */
  const problems = [];

  /**
   * @param {string} name
   * @param {(value: string) => boolean} fits
   * @param {string} otherwise
   */
  function take(name, fits, otherwise) {
    const value = asked.get(name) ?? undefined;
    if (value === undefined || fits(value)) return value;
    const told = value.length > TOLD_CHARS ? `${value.slice(0, TOLD_CHARS)}…` : value;
    problems.push(`the address of this page has ${value ? "" : "an empty "}?${name}=${told}, ${otherwise}`);
    return undefined;
  }

  const threadId = take("thread", (id) => THREAD_ID.test(id), "which names no conversation: here is this tab's own");
  const url = take("url", (url) => isServer(url, href), "which is no server's address: this page's own is asked");
  return { threadId, url, problems };
}

/**
 * @param {string} url
 * @param {string} base
 */
function isServer(url, base) {
  try {
    return url !== "" && SCHEMES.includes(new URL(url, base).protocol);
  } catch {
    return false;
  }
}
