"""One page's tools: what it registered, what was refused and why, and the revision of the set.

Owns the batch rules of protocol.md 5: each tool is judged alone, a refused one harms none of the
others, identical definitions change nothing. Deliberately does not know who calls them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from handspan_protocol.codec import encode
from handspan_protocol.content import digest
from handspan_protocol.errors import ToolCode, UsageError
from handspan_protocol.frames import RejectedTool, ToolsVerdict
from handspan_protocol.ids import WILDCARD
from handspan_protocol.tools import Refusal, Tool, parameters_of, read_tool, to_wire

from .arguments import Compile, SchemaRefusal, ToolSpec
from .policy import Policy

Json = Any


class ToolSet:
    """A page's tools by name; `current` is replaced, never changed, so it may be handed out."""

    def __init__(self, policy: Policy, compile_schema: Compile, taken: Mapping[str, Any]) -> None:
        self.current: Mapping[str, ToolSpec] = {}
        self.revision = 0
        """Grows with every change of the set."""
        self._policy = policy
        self._compile = compile_schema
        self._taken = taken
        """The server's own tools, whose names no page may have."""

    def replace(self, batch: Iterable[Json]) -> ToolsVerdict:
        """The batch is the whole set from now on."""
        return self._put({}, batch)

    def change(self, add: Iterable[Json], remove: Iterable[str]) -> ToolsVerdict:
        """Remove first, then add; an added name that was there is replaced."""
        gone = set(remove)
        return self._put({n: s for n, s in self.current.items() if n not in gone}, add)

    def _put(self, tools: dict[str, ToolSpec], batch: Iterable[Json]) -> ToolsVerdict:
        accepted: list[str] = []
        rejected: list[RejectedTool] = []
        for raw in batch:
            spec = self._judge(raw, tools, accepted)
            if isinstance(spec, Refusal):
                rejected.append(
                    RejectedTool(name=spec.name, code=spec.code.value, message=spec.message)
                )
                if spec.name not in accepted and spec.code is not ToolCode.BAD_NAME:
                    tools.pop(spec.name, None)
            else:
                tools[spec.name] = spec
                accepted.append(spec.name)
        if _digests(tools) != _digests(self.current):
            self.revision += 1
            self.current = tools
        return ToolsVerdict(accepted=tuple(accepted), rejected=tuple(rejected))

    def _judge(
        self, raw: Json, tools: Mapping[str, ToolSpec], accepted: list[str]
    ) -> ToolSpec | Refusal:
        tool = read_tool(raw)
        if isinstance(tool, Refusal):
            return tool
        if tool.name in self._taken and tool.name != WILDCARD:
            return Refusal(tool.name, ToolCode.NAME_TAKEN, "the server has a tool of this name")
        if tool.name in accepted:
            return Refusal(tool.name, ToolCode.DUPLICATE_NAME, "this name stands twice")
        if len(tool.description) > self._policy.description_chars:
            return Refusal(tool.name, ToolCode.BAD_DESCRIPTION, "the description is too long")
        if tool.name not in tools and len(tools) >= self._policy.tools:
            return Refusal(tool.name, ToolCode.TOO_MANY_TOOLS, f"over {self._policy.tools} tools")
        spec = specify(tool, self._compile)
        if isinstance(spec, SchemaRefusal):
            return Refusal(tool.name, spec.code, spec.message)
        others = sum(s.schema_bytes for n, s in tools.items() if n != tool.name)
        if others + spec.schema_bytes > self._policy.schemas_bytes:
            message = "the schemas of this page are too large together"
            return Refusal(tool.name, ToolCode.SCHEMA_TOO_LARGE, message)
        return spec


def specify(
    tool: Tool, compile_schema: Compile, *, invoke: bool = False
) -> ToolSpec | SchemaRefusal:
    """The tool with its compiled judges, or why its schema is none."""
    parameters = parameters_of(tool)
    arguments = compile_schema(parameters)
    if isinstance(arguments, SchemaRefusal):
        return arguments
    returns = None if tool.returns is None else compile_schema(tool.returns)
    if isinstance(returns, SchemaRefusal):
        return returns
    try:
        size = len(encode(parameters)) + (0 if tool.returns is None else len(encode(tool.returns)))
        marked = digest(to_wire(tool))
    except UsageError as problem:
        return SchemaRefusal(ToolCode.BAD_SCHEMA, str(problem))
    return ToolSpec(
        tool=tool,
        arguments=arguments,
        returns=returns,
        digest=marked,
        schema_bytes=size,
        invoke=invoke,
    )


def _digests(tools: Mapping[str, ToolSpec]) -> dict[str, str]:
    return {name: spec.digest for name, spec in tools.items()}
