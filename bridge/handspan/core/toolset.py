"""One page's tools: what it registered, what was refused and why, and the revision of the set.

Owns the batch rules of protocol.md 5: each tool is judged alone, a refused one harms none of the
others, identical definitions change nothing. Deliberately does not know who calls them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from handspan_protocol.codec import encode
from handspan_protocol.content import digest
from handspan_protocol.errors import ToolCode, UsageError
from handspan_protocol.frames import RejectedTool, ToolsVerdict
from handspan_protocol.ids import WILDCARD
from handspan_protocol.tools import Refusal, Tool, parameters_of, read_tool, to_wire

from .arguments import Compile, SchemaRefusal, ToolSpec
from .policy import Policy

Json = Any


BATCH_READ: Final = 1_024
"""Tools of one batch that are judged and answered, beyond twice `Policy.tools`."""


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

    def replace(self, batch: Sequence[Json]) -> ToolsVerdict:
        """The batch is the whole set from now on."""
        return self._put({}, batch)

    def change(self, add: Sequence[Json], remove: Iterable[str]) -> ToolsVerdict:
        """Remove first, then add; an added name that was there is replaced."""
        gone = set(remove)
        return self._put({n: s for n, s in self.current.items() if n not in gone}, add)

    def restore(self, revision: int, tools: Iterable[ToolSpec]) -> None:
        """These were the tools when the process ended; a name the server has now is left out."""
        self.revision = revision
        self.current = {
            spec.name: spec
            for spec in tools
            if spec.name == WILDCARD or spec.name not in self._taken
        }

    def _put(self, tools: dict[str, ToolSpec], batch: Sequence[Json]) -> ToolsVerdict:
        verdict = _Batch(tools, self._policy, self._compile, self._taken)
        read = BATCH_READ + 2 * self._policy.tools
        for raw in batch[:read]:
            verdict.take(raw)
        if len(batch) > read:
            left = f"{len(batch) - read} more tools were not read"
            verdict.reject(Refusal("", ToolCode.TOO_MANY_TOOLS, left))
        if _digests(tools) != _digests(self.current):
            self.revision += 1
            self.current = tools
        return ToolsVerdict(accepted=tuple(verdict.accepted), rejected=tuple(verdict.rejected))


class _Batch:
    """One batch under way: each tool is judged alone, and the cheap checks come first."""

    def __init__(
        self,
        tools: dict[str, ToolSpec],
        policy: Policy,
        compile_schema: Compile,
        taken: Mapping[str, Any],
    ) -> None:
        self.accepted: dict[str, None] = {}
        self.rejected: list[RejectedTool] = []
        self._tools = tools
        self._policy = policy
        self._compile = compile_schema
        self._taken = taken
        self._bytes = sum(spec.schema_bytes for spec in tools.values())
        self._judged_bytes = 0
        """Of all schemas this batch had compiled, the refused ones too."""

    def take(self, raw: Json) -> None:
        """Accept or refuse one tool; a refused one takes the old one of its name along.

        Of a name that is none a refusal repeats only the beginning, which may be another's.
        """
        spec = self._judge(raw)
        name = spec.name
        if isinstance(spec, Refusal):
            self.reject(spec)
            if name not in self.accepted and spec.code is not ToolCode.BAD_NAME:
                self._drop(name)
            return
        self._drop(name)
        self._tools[name] = spec
        self._bytes += spec.schema_bytes
        self.accepted[name] = None

    def reject(self, refusal: Refusal) -> None:
        told = RejectedTool(name=refusal.name, code=refusal.code.value, message=refusal.message)
        self.rejected.append(told)

    def _drop(self, name: str) -> None:
        old = self._tools.pop(name, None)
        self._bytes -= old.schema_bytes if old else 0

    def _judge(self, raw: Json) -> ToolSpec | Refusal:
        tool = read_tool(raw)
        if isinstance(tool, Refusal):
            return tool
        if tool.name in self._taken and tool.name != WILDCARD:
            return Refusal(tool.name, ToolCode.NAME_TAKEN, "the server has a tool of this name")
        if tool.name in self.accepted:
            return Refusal(tool.name, ToolCode.DUPLICATE_NAME, "this name stands twice")
        if len(tool.description) > self._policy.description_chars:
            return Refusal(tool.name, ToolCode.BAD_DESCRIPTION, "the description is too long")
        if tool.name not in self._tools and len(self._tools) >= self._policy.tools:
            most = f"over {self._policy.tools} tools"
            return Refusal(tool.name, ToolCode.TOO_MANY_TOOLS, most)
        return self._judge_schemas(tool)

    def _judge_schemas(self, tool: Tool) -> ToolSpec | Refusal:
        """Sizes before meaning: compiling is what costs."""
        size = schema_size(tool)
        if isinstance(size, SchemaRefusal):
            return Refusal(tool.name, size.code, size.message)
        old = self._tools.get(tool.name)
        kept = self._bytes - (old.schema_bytes if old else 0)
        most, judged = self._policy.schemas_bytes, self._judged_bytes + size
        if kept + size > most or judged > 2 * most:
            message = "the schemas of this page are too large together"
            return Refusal(tool.name, ToolCode.SCHEMA_TOO_LARGE, message)
        self._judged_bytes = judged
        spec = specify(tool, self._compile)
        if isinstance(spec, SchemaRefusal):
            return Refusal(tool.name, spec.code, spec.message)
        return spec


def schema_size(tool: Tool) -> int | SchemaRefusal:
    """Bytes of the tool's schemas as JSON."""
    try:
        returns = 0 if tool.returns is None else len(encode(tool.returns))
        return len(encode(parameters_of(tool))) + returns
    except UsageError as problem:
        return SchemaRefusal(ToolCode.BAD_SCHEMA, str(problem))


def specify(
    tool: Tool, compile_schema: Compile, *, invoke: bool = False
) -> ToolSpec | SchemaRefusal:
    """The tool with its compiled judges, or why its schema is none."""
    size = schema_size(tool)
    if isinstance(size, SchemaRefusal):
        return size
    arguments = compile_schema(parameters_of(tool))
    if isinstance(arguments, SchemaRefusal):
        return arguments
    returns = None if tool.returns is None else compile_schema(tool.returns)
    if isinstance(returns, SchemaRefusal):
        return returns
    return ToolSpec(
        tool=tool,
        arguments=arguments,
        returns=returns,
        digest=digest(to_wire(tool)),
        schema_bytes=size,
        invoke=invoke,
    )


def _digests(tools: Mapping[str, ToolSpec]) -> dict[str, str]:
    return {name: spec.digest for name, spec in tools.items()}
