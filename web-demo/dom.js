/**
 * The one door to the DOM: elements whose text is set as text, never parsed, so that nothing an agent or
 * a visitor writes can become markup. Owns the icons too. Knows nothing of boards and conversations.
 */

const SVG = "http://www.w3.org/2000/svg";

/** Paths on a 24 by 24 field, drawn as lines. */
const ICONS = {
  add: "M12 6v12M6 12h12",
  back: "M15 6l-6 6 6 6",
  forth: "M9 6l6 6-6 6",
  remove: "M7 7l10 10M17 7L7 17",
  running: "M12 4a8 8 0 1 0 8 8",
  done: "M5 12.5l4.5 4.5L19 7.5",
  failed: "M12 5v9M12 18.5v.5",
  declined: "M6 6l12 12M18 6L6 18",
  stopped: "M8 8h8v8H8z",
  unclear: "M9 9a3 3 0 1 1 4.2 2.8c-.8.4-1.2 1-1.2 2.2M12 18.5v.5",
  asking: "M12 4l8 15H4zM12 10v4M12 16.5v.5",
  waiting: "M6 12h.01M12 12h.01M18 12h.01",
};

/** @typedef {keyof typeof ICONS} IconName */

/**
 * An element with attributes and children. An attribute that is `undefined` or `false` is left out.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, string | number | boolean | undefined>} [attributes]
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children);
  return made;
}

/**
 * A button that says what it does, or shows an icon and says it to those who do not see it.
 * @param {string} name
 * @param {() => void} press
 * @param {Record<string, string | undefined> & { icon?: IconName }} [attributes]
 */
export function button(name, press, { icon: iconName, ...attributes } = {}) {
  const made = iconName
    ? element("button", { type: "button", "aria-label": name, title: name, ...attributes }, icon(iconName))
    : element("button", { type: "button", ...attributes }, name);
  made.addEventListener("click", press);
  return made;
}

/** @param {IconName} name */
export function icon(name) {
  const made = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");
  made.setAttribute("class", "icon");
  made.setAttribute("viewBox", "0 0 24 24");
  made.setAttribute("aria-hidden", "true");
  path.setAttribute("d", ICONS[name]);
  made.append(path);
  return made;
}

/**
 * The element of the page with that id. The page's own HTML promises it.
 * @param {string} id
 * @returns {any}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`index.html has no #${id}`);
  return found;
}

/**
 * Shows a text in place of another; a text that only grew keeps what was there, so that whoever has
 * selected some of it, or is reading it, is not disturbed.
 * @param {Element} home  holds this text and nothing else
 * @param {string} text
 */
export function write(home, text) {
  const node = /** @type {Text | null} */ (home.firstChild);
  if (node && text.startsWith(node.data)) node.appendData(text.slice(node.data.length));
  else home.textContent = text;
}

/** A tab that is not looked at draws no frames; what is to be done with one is done by then anyway. */
const FRAME_MS = 250;

/**
 * Does something with the next frame that the browser draws: once, however often it is asked for until then.
 * @param {() => void} work
 * @returns {() => void} asks for it
 */
export function perFrame(work) {
  let frame = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const go = () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    frame = 0;
    work();
  };
  return () => {
    if (frame) return;
    frame = requestAnimationFrame(go);
    timer = setTimeout(go, FRAME_MS);
  };
}

/** Whether this visitor wants things to stay still. */
export const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
