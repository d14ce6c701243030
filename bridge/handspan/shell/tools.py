"""Server tools: a Python function as a tool, and running one.

Owns the schema from the signature (by pydantic), the values a function gets (its annotations' own
types), and what its exceptions become: `ToolError` speaks to the model, everything else is a
generic text with an id in the log. A parameter annotated `Run` gets the Run and is no argument.
"""

import inspect
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic_core import PydanticSerializationError

from handspan.core.answer import Answer
from handspan_protocol.codec import encode
from handspan_protocol.content import page_error_message
from handspan_protocol.errors import CallCode, UsageError
from handspan_protocol.tools import Refusal, Tool, read_tool

from .run import Run
from .steps import in_thread, is_async, let_through
from .values import ToolError

Json = Any
_ANY: TypeAdapter[Any] = TypeAdapter(Any, config=ConfigDict(ser_json_inf_nan="constants"))
_LOG = logging.getLogger("handspan.tool")


@dataclass(frozen=True, slots=True)
class Parts:
    """AG-UI content parts (text, image, ...) that a function returns in place of a value."""

    parts: tuple[Mapping[str, Json], ...]


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool that this process carries out."""

    tool: Tool
    function: Callable[..., Any]
    model: type[BaseModel] | None
    """Of the arguments; None: the function takes them as they are."""
    run_parameter: str | None
    invoke: bool = False


def server_tool(function: Callable[..., Any], **options: Any) -> ServerTool:
    """Make a tool of a function.

    Options: name, description, parameters, read_only, idempotent, approval, timeout (seconds),
    follow_up, agent, invoke, returns, title, consequential, untrusted, parallel.

    Raises:
        UsageError: an unknown option, or no tool can be made of it.
    """
    unknown = set(options) - _OPTIONS
    if unknown:
        raise UsageError(f"unknown tool option {sorted(unknown)[0]!r}")
    run_parameter, model = _model_of(function)
    parameters = options.get("parameters")
    if parameters is None and model is not None:
        parameters = _schema_of(model)
    timeout = options.get("timeout")
    wire = {
        "name": options.get("name") or getattr(function, "__name__", ""),
        "description": _description(function, options),
        "parameters": parameters,
        "timeoutMs": None if timeout is None else round(timeout * 1000),
        **{wire: options.get(ours) for ours, wire in _PLAIN.items()},
    }
    tool = read_tool(wire)
    if isinstance(tool, Refusal):
        raise UsageError(f"tool {tool.name!r}: {tool.message} ({tool.code.value})")
    model = None if options.get("parameters") is not None else model
    return ServerTool(tool, function, model, run_parameter, options.get("invoke") is True)


_PLAIN: Mapping[str, str] = {
    "title": "title",
    "returns": "returns",
    "agent": "agent",
    "read_only": "readOnly",
    "idempotent": "idempotent",
    "approval": "approval",
    "follow_up": "followUp",
    "consequential": "consequential",
    "untrusted": "untrusted",
    "parallel": "parallel",
}
_OPTIONS = {"name", "description", "parameters", "timeout", "invoke", *_PLAIN}


def _description(function: Callable[..., Any], options: Mapping[str, Any]) -> str:
    given = options.get("description")
    return given if given is not None else (inspect.getdoc(function) or "")


def _model_of(function: Callable[..., Any]) -> tuple[str | None, type[BaseModel] | None]:
    """The parameter that wants the Run, and a model of the others."""
    try:
        signature = inspect.signature(function)
        hints = get_type_hints(function, include_extras=True)
    except (TypeError, ValueError, NameError) as problem:
        raise UsageError(f"the signature of {function!r} cannot be read: {problem}") from None
    run_parameter: str | None = None
    fields: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if hints.get(name) is Run:
            run_parameter = name
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (hints.get(name, Any), default)
    try:
        model = create_model("Arguments", __config__=ConfigDict(extra="ignore"), **fields)
    except Exception as problem:
        raise UsageError(f"no arguments can be made of {function!r}: {problem}") from None
    return run_parameter, model


def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    schema.pop("title", None)
    for shown in schema.get("properties", {}).values():
        if isinstance(shown, dict):
            shown.pop("title", None)
    return schema


async def run_tool(tool: ServerTool, args: Mapping[str, Json], run: Run) -> Answer:
    """Carry it out; never raises but for cancellation."""
    try:
        return _result(await _call(tool, _given(tool, args, run)))
    except ToolError as failure:
        return _failure(failure.code or CallCode.HANDLER_ERROR.value, failure.message)
    except ValidationError as problem:
        first = problem.errors()[0]
        place = "/" + "/".join(str(part) for part in first["loc"])
        return _failure(CallCode.HANDLER_ERROR.value, f"{place}: {first['msg']}")
    except BaseException as error:
        let_through(error)
        mark = secrets.token_hex(4)
        _LOG.exception("tool %s failed (%s)", tool.tool.name, mark)
        message = f"the tool failed ({mark} in the server's log)"
        return _failure(CallCode.HANDLER_ERROR.value, message)


def _result(value: Any) -> Answer:
    """The value as JSON: models, dates and the like as pydantic writes them; NaN is refused."""
    if isinstance(value, Parts):
        return Answer(content=tuple(dict(part) for part in value.parts))
    try:
        plain = _ANY.dump_python(value, mode="json")
        encode(plain)
    except (UsageError, PydanticSerializationError, ValueError, RecursionError) as problem:
        message = page_error_message(f"the result is no JSON: {problem}")
        return Answer(error_message=message, code=CallCode.INVALID_RESULT)
    return Answer(value=plain)


def _failure(code: str, message: str) -> Answer:
    return Answer(error_code=code, error_message=page_error_message(message))


def _given(tool: ServerTool, args: Mapping[str, Json], run: Run) -> dict[str, Any]:
    if tool.model is None:
        given = dict(args)
    else:
        checked = tool.model.model_validate(dict(args))
        given = {name: getattr(checked, name) for name in tool.model.model_fields}
    return given | ({tool.run_parameter: run} if tool.run_parameter else {})


async def _call(tool: ServerTool, given: dict[str, Any]) -> Any:
    if is_async(tool.function):
        return await tool.function(**given)
    value = await in_thread(lambda: tool.function(**given))
    return await value if inspect.isawaitable(value) else value
