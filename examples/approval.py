"""A tool whose every call a human must allow.

    python examples/approval.py

The agent wants to empty the list. The page asks; what it answers decides, and the agent is told.
"""

from collections.abc import AsyncIterator
from typing import Any

import serving

from handspan import Bridge, Run

bridge = Bridge()


@bridge.agent
async def assistant(run: Run) -> AsyncIterator[Any]:
    """Where a model would stand."""
    if run.depth == 0:
        yield run.call("empty_list")
    elif run.results[0].ok:
        yield f"Gone: {', '.join(run.results[0].value)}."
    else:
        yield f"I left it alone: {run.results[0].error.message}."


PAGE = """<!doctype html>
<title>Approval</title>
<ul><li>milk</li><li>bread</li></ul>
<button id="ask">Empty it</button>
<dialog>
  <p></p>
  <form method="dialog"><button value="yes">Allow</button> <button value="no">Deny</button></form>
</dialog>
<pre></pre>
<script type="module" src="page.js"></script>
"""

SCRIPT = """
import { connect } from "/client/handspan.js";

const bridge = connect();
const [list, dialog, said] = ["ul", "dialog", "pre"].map((name) => document.querySelector(name));

bridge.tool("empty_list", { description: "Empty the list", approval: "always" }, () => {
  const gone = [...list.children].map((item) => item.textContent);
  list.replaceChildren();
  return gone;
});

bridge.onApproval(({ name, args }) => {
  dialog.querySelector("p").textContent = `May the agent run ${name} ${JSON.stringify(args)}?`;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((answer) => {
    dialog.onclose = () => {
      const approved = dialog.returnValue === "yes";
      answer({ approved, reason: approved ? undefined : "the user said no" });
    };
  });
});

document.getElementById("ask").onclick = () => bridge.run("empty the list");
bridge.subscribe(({ messages, calls }) => {
  const asked = calls.some(({ state }) => state === "waiting_approval");
  if (!asked && dialog.open) dialog.close(); // answered elsewhere, or too late
  const lines = messages.filter(({ role, content }) => role === "assistant" && content);
  said.textContent = lines.map(({ content }) => content).join("\\n");
});
"""

if __name__ == "__main__":
    serving.run(bridge, {"index.html": PAGE, "page.js": SCRIPT})
