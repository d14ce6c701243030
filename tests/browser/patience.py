"""Waiting in a page with an end: `page.evaluate` by itself waits for ever."""

from typing import Any

from playwright.sync_api import Page

PATIENCE_MS = 8_000

_WITHIN = """async ([given, ms, wanted]) => {
  const told = () => JSON.stringify({ ran: window.ran, errors: window.errors });
  const late = new Promise((_, reject) => setTimeout(
    () => reject(new Error(`not within ${ms} ms: ${wanted}; ${told()}`)), ms));
  const seen = async () => (window.bridge ? JSON.stringify(await view()) : "nothing");
  return Promise.race([(SOURCE)(given), late]).catch(async (error) => {
    if (error instanceof Error) error.message += ` | the page saw: ${await seen()}`;
    throw error;
  });
}"""


def within(page: Page, wanted: str, source: str, given: Any = None, ms: float = PATIENCE_MS) -> Any:
    """What a function in the page comes to; fails with `wanted` and what the page saw."""
    return page.evaluate(_WITHIN.replace("SOURCE", source), [given, ms, wanted])


def until(page: Page, wanted: str, condition: str) -> None:
    """Wait for an expression in the page to hold; by tasks, so that the page goes on meanwhile."""
    task = "new Promise((go) => setTimeout(go, 5))"
    within(page, wanted, f"async () => {{ while (!({condition})) await {task} }}")


RECORD = """
window.sent = [];
window.WebSocket = class extends WebSocket {
  send(text) { sent.push(JSON.parse(text)); super.send(text); }
};
"""
"""An init script: `sent` has every frame that the page wrote to any of its sockets."""
