"""Waiting in a page with an end: `page.evaluate` by itself waits for ever."""

from typing import Any

from playwright.sync_api import Page

PATIENCE_MS = 8_000

_WITHIN = """async ([source, given, ms, wanted]) => {
  const late = new Promise((_, reject) => setTimeout(() => reject(new Error(
    `not within ${ms} ms: ${wanted}; ` + JSON.stringify({ ran: window.ran, errors: window.errors }))), ms));
  const seen = window.view ? () => view().then((view) => JSON.stringify(view)) : () => "no view";
  const work = (0, eval)(`(${source})`)(given);
  return Promise.race([work, late]).catch(async (error) => {
    if (error instanceof Error) error.message += " | the page saw: " + await seen();
    throw error;
  });
}"""


def within(
    page: Page, wanted: str, source: str, given: Any = None, ms: float = PATIENCE_MS
) -> Any:
    """What a function in the page comes to; fails with `wanted` and what the page saw."""
    return page.evaluate(_WITHIN, [source, given, ms, wanted])


RECORD = """
window.sent = [];
window.WebSocket = class extends WebSocket {
  send(text) { sent.push(JSON.parse(text)); super.send(text); }
};
"""
"""An init script: `sent` has every frame that the page wrote to any of its sockets."""
