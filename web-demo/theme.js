/**
 * Light or dark. The page follows what the visitor's system prefers until somebody chooses; what is shown
 * stands in `data-theme` of the document's element, and style.css does the rest.
 */

/** @typedef {"light" | "dark"} Theme */
/** @typedef {ReturnType<typeof makeTheme>} ThemeSwitch */

export function makeTheme() {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  /** @type {Theme | undefined} */
  let chosen;
  /** @type {Set<() => void>} */
  const listeners = new Set();
  const current = () => chosen ?? (system.matches ? "dark" : "light");

  function show() {
    root.dataset.theme = current();
    listeners.forEach((listener) => listener());
  }

  system.addEventListener("change", show);
  show();

  return {
    /** @returns {Theme} what is shown */
    get current() {
      return current();
    },

    /** @param {Theme} theme */
    choose(theme) {
      chosen = theme;
      show();
    },

    /** @param {() => void} listener  told now and after every change */
    subscribe(listener) {
      listeners.add(listener);
      listener();
    },
  };
}
