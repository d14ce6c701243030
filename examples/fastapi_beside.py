"""FastAPI beside the bridge: one process, one event loop, two ports.

    pip install fastapi uvicorn
    python examples/fastapi_beside.py

The page comes from FastAPI (PORT, or 8765) and opens its socket to the bridge (any free port). A
route may run the agent, or one tool, in whatever page has the thread open:

    curl -X POST 'http://127.0.0.1:8765/ask?message=dark'
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import serving
import uvicorn
from fastapi import FastAPI, HTTPException
from fastapi.responses import HTMLResponse

from handspan import Bridge, Run

THREAD = "our-thread"

bridge = Bridge(origins=[f"http://{host}:{serving.PORT}" for host in ("127.0.0.1", "localhost")])


@bridge.agent
async def assistant(run: Run) -> AsyncIterator[Any]:
    """Where a model would stand."""
    if run.depth == 0:
        theme = "light" if "light" in str(run.messages[-1].content) else "dark"
        yield run.call("set_theme", {"theme": theme})
    elif run.results[0].ok:
        yield f"It is {run.results[0].value}."
    else:
        yield f"That did not work: {run.results[0].error.message}"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """The bridge begins and ends with the application."""
    async with bridge.running(port=0) as address:
        app.state.bridge = str(address)
        yield
        await bridge.drain()


app = FastAPI(lifespan=lifespan)


@app.get("/")
async def page() -> HTMLResponse:
    return HTMLResponse(PAGE.replace("BRIDGE", app.state.bridge).replace("THREAD", THREAD))


@app.post("/ask")
async def ask(message: str) -> dict[str, Any]:
    """Run the agent."""
    result = await bridge.run(message, thread_id=THREAD)
    return {"reason": result.reason, "text": result.text}


@app.post("/theme")
async def theme(theme: str) -> Any:
    """Run one tool, without the agent."""
    call = await bridge.call_tool(THREAD, "set_theme", {"theme": theme})
    if not call.ok:
        raise HTTPException(409, f"{call.error.code}: {call.error.message}")
    return call.value


PAGE = """<!doctype html>
<title>Beside FastAPI</title>
<button>Ask for the dark</button>
<pre></pre>
<script type="module">
  import { connect } from "BRIDGE/client/handspan.js";

  const bridge = connect({ url: "BRIDGE/", threadId: "THREAD" });
  const themes = { theme: { enum: ["light", "dark"] } };
  bridge.tool("set_theme", {
    description: "Set the page's theme",
    parameters: { type: "object", properties: themes, required: ["theme"] },
  }, ({ theme }) => (document.documentElement.style.colorScheme = theme));

  document.querySelector("button").onclick = () => bridge.run("dark");
  bridge.subscribe(({ messages }) => {
    const lines = messages.filter(({ content }) => content);
    const text = lines.map(({ role, content }) => `${role}: ${content}`).join("\\n");
    document.querySelector("pre").textContent = text;
  });
</script>
"""

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=serving.PORT)
