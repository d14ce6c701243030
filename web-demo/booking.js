/**
 * The form for booking a seat. An agent may fill it in, and what it filled is marked until the visitor
 * touches it; only the visitor can press the button, and even then nothing is sent: the page says so.
 */

import { byId, element } from "./dom.js";

/** @typedef {{ name?: string, email?: string, seats?: number, newsletter?: boolean }} Booking */
/** @typedef {ReturnType<typeof makeBooking>} BookingForm */

export function makeBooking() {
  /** @type {HTMLFormElement} */
  const form = byId("booking");
  const told = byId("booking-told");
  const fields = /** @type {Record<string, HTMLInputElement>} */ (
    Object.fromEntries(["name", "email", "seats", "newsletter"].map((name) => [name, byId(`booking-${name}`)]))
  );

  /**
   * @param {string} name
   * @param {string | number | boolean} value
   */
  function fillOne(name, value) {
    const field = fields[name];
    if (typeof value === "boolean") field.checked = value;
    else field.value = String(value);
    mark(field, true);
  }

  /**
   * @param {Element} field
   * @param {boolean} filled
   */
  function mark(field, filled) {
    const label = field.closest("label");
    label?.toggleAttribute("data-filled", filled);
    label?.querySelector(".mark")?.remove();
    if (filled) label?.append(element("span", { class: "mark" }, "filled in"));
  }

  form.addEventListener("input", ({ target }) => mark(/** @type {Element} */ (target), false));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    told.textContent = `This is a demonstration: nothing was sent, and no seat is taken.`;
  });

  return {
    /** @param {Booking} values  what is not named stays as it is */
    fill(values) {
      Object.entries(values).forEach(([name, value]) => fillOne(name, value));
      told.textContent = `Filled in for you: ${Object.keys(values).join(", ")}. Nothing was sent.`;
      return { filled: values, sent: false };
    },

    /** @returns {Required<Booking>} what stands in it */
    read: () => ({
      name: fields.name.value,
      email: fields.email.value,
      seats: Number(fields.seats.value),
      newsletter: fields.newsletter.checked,
    }),
  };
}
