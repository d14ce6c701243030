"""Two tabs on one conversation.

    python examples/two_tabs.py

Open it twice. Both show all that is said; a call goes to the tab that asked, since its own tool
comes first, and only that one is coloured.
"""

from collections.abc import AsyncIterator
from typing import Any

import serving

from handspan import Bridge, Run

COLOURS = ("gold", "skyblue", "lightgreen", "pink")

bridge = Bridge()


@bridge.agent
async def assistant(run: Run) -> AsyncIterator[Any]:
    """Where a model would stand."""
    if run.depth == 0:
        said = str(run.messages[-1].content).lower()
        colour = next((each for each in COLOURS if each in said), COLOURS[0])
        yield run.call("set_colour", {"colour": colour})
    else:
        yield f"{run.results[0].value}."


PAGE = """<!doctype html>
<title>Two tabs</title>
<h1></h1>
<form><input name="message" value="make it pink"> <button>Ask</button></form>
<pre></pre>
<script type="module" src="page.js"></script>
"""

SCRIPT = """
import { connect } from "/client/handspan.js";

const me = `tab ${Math.floor(Math.random() * 1000)}`;
document.querySelector("h1").textContent = me;

const bridge = connect({ threadId: "our-colours" }); // the same in every tab

bridge.tool("set_colour", {
  description: "Set the background of the page",
  parameters: { type: "object", properties: { colour: { type: "string" } }, required: ["colour"] },
}, ({ colour }) => {
  document.body.style.background = colour;
  return `${me} is ${colour}`;
});

document.querySelector("form").onsubmit = (event) => {
  event.preventDefault();
  bridge.run(event.target.message.value, { ifBusy: "queue" }); // the other tab may be speaking
};
bridge.subscribe(({ messages }) => {
  const lines = messages.filter(({ role, content }) => role !== "tool" && content);
  const text = lines.map(({ role, content }) => `${role}: ${content}`).join("\\n");
  document.querySelector("pre").textContent = text;
});
"""

if __name__ == "__main__":
    serving.run(bridge, {"index.html": PAGE, "page.js": SCRIPT})
