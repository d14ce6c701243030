"""Buttons that run a tool of the page, with and without the agent.

    python examples/button.py

"light" and "dark" run the page's own tool, and nobody else is asked. "Surprise me" has the agent
go on from there: it is told what came of the call, as if it had made it.
"""

from collections.abc import AsyncIterator

import serving

from handspan import Bridge, Run

bridge = Bridge()


@bridge.agent
async def assistant(run: Run) -> AsyncIterator[str]:
    """Where a model would stand; after a button its first step has the result already."""
    if run.results:
        yield f"Surprise: it is {run.results[0].value} now."
    else:
        yield "Press a button."


PAGE = """<!doctype html>
<title>Buttons</title>
<button value="light">light</button> <button value="dark">dark</button>
<button value="surprise">Surprise me</button>
<p id="told"></p>
<pre id="said"></pre>
<script type="module" src="page.js"></script>
"""

SCRIPT = """
import { connect } from "/client/handspan.js";

const bridge = connect();
const themes = { theme: { enum: ["light", "dark"] } };
const [told, said] = ["told", "said"].map((id) => document.getElementById(id));

bridge.tool("set_theme", {
  description: "Set the page's theme",
  parameters: { type: "object", properties: themes, required: ["theme"] },
}, ({ theme }) => (document.documentElement.style.colorScheme = theme));

for (const button of document.querySelectorAll("button")) {
  button.onclick = async () => {
    const surprise = button.value === "surprise";
    const theme = surprise ? ["light", "dark"][Math.floor(Math.random() * 2)] : button.value;
    const call = await bridge.runTool("set_theme", { theme }, { followUp: surprise });
    told.textContent = call.error ? call.error.message : `${call.outcome}: ${call.result}`;
  };
}

bridge.subscribe(({ messages }) => {
  const lines = messages.filter(({ role, content }) => role === "assistant" && content);
  said.textContent = lines.map(({ content }) => content).join("\\n");
});
"""

if __name__ == "__main__":
    serving.run(bridge, {"index.html": PAGE, "page.js": SCRIPT})
