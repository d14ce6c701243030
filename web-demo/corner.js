/**
 * The corner where it is shown what no other tool took: the name that was called and the arguments that
 * came with it, the newest first, as text.
 */

import { byId, element } from "./dom.js";

/** More would push the page about; what is older has been seen. */
const KEPT = 4;

/** @typedef {ReturnType<typeof makeCorner>} Corner */

export function makeCorner() {
  const list = byId("unclaimed");
  /** @type {{ toolName: string, args: unknown } | null} */
  let newest = null;

  return {
    /** The newest that arrived. */
    get newest() {
      return newest;
    },

    /**
     * @param {string} toolName
     * @param {unknown} args
     */
    show(toolName, args) {
      newest = { toolName, args };
      const text = JSON.stringify(args, null, 1).replace(/\n\s*/g, " ");
      list.prepend(element("p", {}, element("strong", {}, toolName), " ", element("code", {}, text)));
      while (list.children.length > KEPT) list.lastElementChild.remove();
      list.parentElement.toggleAttribute("data-empty", false);
      return { shown: toolName };
    },
  };
}
