"""The adapter: a graph is run once a step, on the thread's history, and heard.

Owns how a graph is made ready for one run and what its end means; deliberately does not know what
is said on the way (`ears`, `stream`), nor what its tools do (`tools`).
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

from langgraph.errors import GraphRecursionError
from langgraph.pregel import Pregel

from handspan.model.prompt import instructions_of
from handspan.ports import AgentFailed
from handspan_protocol.errors import RunCode, UsageError

from .ears import Ears
from .messages import spelled
from .step import KEY, Step
from .stream import MODES, read

Graph = Pregel[Any, Any, Any, Any]


class LangGraph:
    """A graph as an agent; one serves any number of runs at once.

    `graph`: compiled, or a function of the Run, sync or async, that gives a compiled one for each
    step. `instructions` stand before the history, as a system message. `config` is LangGraph's
    (`recursion_limit`, `tags`, ...); `context` its runtime context, or a function of the Run that
    gives it; `inputs(run)` gives what the graph's state takes beside `messages`. A state's
    `structured_response` becomes `run.output`.

    Raises:
        UsageError: `graph` is neither; a StateGraph must be compiled first.
    """

    def __init__(
        self,
        graph: Graph | Callable[[Any], Any],
        *,
        instructions: str = "",
        config: Mapping[str, Any] | None = None,
        context: Any = None,
        inputs: Callable[[Any], Mapping[str, Any]] | None = None,
    ) -> None:
        if not isinstance(graph, Pregel) and not callable(graph):
            raise UsageError(
                f"LangGraph wants a compiled graph or a function that makes one, not a"
                f" {type(graph).__name__} (a StateGraph is compiled by its compile())"
            )
        self._graph = graph
        self._instructions = instructions
        self._config = config or {}
        self._context = context
        self._inputs = inputs

    async def __call__(self, run: Any) -> AsyncIterator[Any]:
        """Answer a Run with items.

        Raises:
            AgentFailed: a provider refused, or the graph was interrupted or ran in circles.
            UsageError: the function gave no compiled graph.
        """
        step = Step(run)
        step.voice.begin(self._drive(await self._compiled(run), step))
        try:
            async for item in step.voice.items():
                yield item
            step.voice.conclude()
        except GraphRecursionError:
            message = "the graph took more steps than its recursion_limit"
            raise AgentFailed(message, RunCode.AGENT_ERROR) from None
        finally:
            await step.voice.stop()

    async def _compiled(self, run: Any) -> Graph:
        graph: Any = self._graph
        if not isinstance(graph, Pregel):
            graph = graph(run)
            graph = await graph if isinstance(graph, Awaitable) else graph
        if not isinstance(graph, Pregel):
            raise UsageError(f"a compiled graph was expected, not a {type(graph).__name__}")
        return graph

    async def _drive(self, graph: Graph, step: Step) -> None:
        run = step.run
        given = self._inputs(run) if self._inputs else {}
        told = instructions_of(run, self._instructions)
        parts: Any = self._wired(graph, step).astream(
            {**given, "messages": spelled(run.messages, step.names, told)},
            context=self._context(run) if callable(self._context) else self._context,
            stream_mode=MODES,
            subgraphs=True,
        )
        async with aclosing(parts):
            async for namespace, mode, part in parts:
                read(step, namespace, mode, part)

    def _wired(self, graph: Graph, step: Step) -> Graph:
        """The graph for this step: heard, knowing its step, and without a memory of its own."""
        configurable = {
            "thread_id": step.run.thread_id,
            **(graph.config or {}).get("configurable", {}),
            **self._config.get("configurable", {}),
            KEY: step,
        }
        config: Any = {**self._config, "configurable": configurable}
        wired = graph.with_config(config, callbacks=[Ears(step)])
        return wired.copy({"checkpointer": None}) if wired.checkpointer else wired
