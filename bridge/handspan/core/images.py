"""Calls, requests and runs as JSON and back: what a store keeps of them.

Owns the two directions of each, side by side, so that they stay each other's inverse; a field that
is not here does not outlive the process. Deliberately left out: what hangs on this process (tickets
of waiting code, hooks at work) and every point in time, since clocks begin anew with a process.
Above sit `keeping` and `revival`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from handspan_protocol.errors import CallCode, UsageError
from handspan_protocol.frames import ContextItem
from handspan_protocol.ids import CallId, MessageId, RunId, SessionId
from handspan_protocol.tools import Refusal, read_tool, to_wire

from .answer import Answer
from .arguments import Compile, SchemaRefusal, ToolSpec
from .call import Approval, Call, CallEvent, CallState, Settlement
from .entries import as_text, read
from .inputs import InvokeRequested, RunRequested
from .parties import Asker, Principal
from .run import Run, Step
from .toolset import specify

Json = Any
Image = dict[str, Any]
Request = RunRequested | InvokeRequested
IfBusy = Literal["reject", "queue", "replace"]
FindTool = Callable[[Mapping[str, Json]], ToolSpec | None]

# ---- calls -----------------------------------------------------------------------------------


def call_image(call: Call) -> Image:
    """One call; of a settled one only what is still asked about it."""
    image: Image = {
        "runId": call.run_id,
        "owner": call.owner,
        "depth": call.depth,
        "name": call.name,
        "messageId": call.message_id,
        "state": call.state.value,
        "attempt": call.attempt,
        "held": call.held,
        "asked": call.asked,
        "decision": None if call.decision is None else as_text(call.decision),
        "last": call.last,
    }
    if call.settlement is not None:
        image["settled"] = _settlement_image(call.settlement)
        image["revised"] = None if call.revised is None else _settlement_image(call.revised)
        return image
    approval = call.approval
    return image | {
        "raw": call.raw,
        "args": as_text(call.args),
        "ended": call.ended,
        "overLimit": call.over_limit,
        "judged": call.judged,
        "holder": call.holder,
        "lostAs": call.lost_as.value,
        "approval": None if approval is None else [approval.digest, approval.reason],
        "tool": None if call.spec is None else tool_image(call.spec, server=call.is_servers),
    }


def read_call(call_id: CallId, image: Mapping[str, Json], find_tool: FindTool) -> Call:
    """The call as it was; `find_tool` gives the tool it has, where it can still be had."""
    call = Call(
        id=call_id,
        run_id=RunId(image["runId"]),
        owner=image["owner"],
        depth=image["depth"],
        name=image["name"],
        message_id=MessageId(image["messageId"]),
        state=CallState(image["state"]),
        attempt=image["attempt"],
        held={SessionId(session): attempt for session, attempt in image["held"].items()},
        asked=image["asked"],
        decision=None if image["decision"] is None else tuple(read(image["decision"])),
        last=image["last"],
    )
    if "settled" in image:
        call.ended = call.result_shown = True  # unless it is of the step under way: see `revival`
        call.settlement = _read_settlement(image["settled"])
        call.revised = None if image["revised"] is None else _read_settlement(image["revised"])
        return call
    call.pieces = [image["raw"]]
    call.args = read(image["args"])
    call.ended, call.over_limit = image["ended"], image["overLimit"]
    call.judged, call.holder = image["judged"], image["holder"]
    call.lost_as = CallCode(image["lostAs"])
    tool = image["tool"]
    call.spec = None if tool is None else find_tool(tool)
    if tool is not None and "server" not in tool and call.holder is None:
        call.homeless_until = 0.0  # whoever takes it up says when
    if image["approval"] is not None:
        digest, reason = image["approval"]
        call.approval = Approval(digest=digest, expires_at=0.0, reason=reason)
    return call


def _settlement_image(settlement: Settlement) -> Image:
    answer = settlement.answer
    return {
        "by": settlement.by.value,
        "code": settlement.code,
        "value": as_text(answer.value),
        "content": None if answer.content is None else as_text(answer.content),
        "errorCode": answer.error_code,
        "errorMessage": answer.error_message,
        "answerCode": answer.code,
    }


def _read_settlement(image: Mapping[str, Json]) -> Settlement:
    answer = Answer(
        value=read(image["value"]),
        content=None if image["content"] is None else tuple(read(image["content"])),
        error_code=image["errorCode"],
        error_message=image["errorMessage"],
        code=_code(image["answerCode"]),
    )
    return Settlement(by=CallEvent(image["by"]), answer=answer, code=_code(image["code"]))


def _code(value: str | None) -> CallCode | None:
    return None if value is None else CallCode(value)


# ---- tools -----------------------------------------------------------------------------------


def tool_image(spec: ToolSpec, *, server: bool) -> Image:
    """A page's tool as it registered it; of one of the server's the name is enough."""
    if server:
        return {"server": spec.name, "digest": spec.digest}
    return to_wire(spec.tool)


def read_page_tool(image: Json, compile_schema: Compile) -> ToolSpec | None:
    """The tool a page once registered; None: it is none any more, by the rules of today."""
    tool = read_tool(image)
    if isinstance(tool, Refusal):
        return None
    spec = specify(tool, compile_schema)
    return None if isinstance(spec, SchemaRefusal) else spec


# ---- requests --------------------------------------------------------------------------------


def request_image(request: Request, began: tuple[ContextItem, ...]) -> Image:
    """What was asked for; `began`: what the page said of itself when the run began.

    A principal whose attributes JSON cannot hold is kept without them: its run is not taken up.
    """
    common: Image = {
        "asker": [request.asker.session, request.asker.ticket],
        "ifBusy": request.if_busy,
        "principal": _principal_image(request.principal),
        "began": [context_image(item) for item in began],
    }
    if isinstance(request, InvokeRequested):
        return common | {
            "invoke": request.name,
            "raw": request.raw,
            "followUp": request.follow_up,
        }
    return common | {
        "agent": request.agent,
        "message": request.message,
        "after": request.after,
        "context": [context_image(item) for item in request.context],
        "forwardedProps": request.forwarded_props,
    }


def read_request(run_id: RunId, image: Mapping[str, Json]) -> Request:
    """The request as it was, under the id that its run has."""
    session, ticket = image["asker"]
    principal_id, attributes = image["principal"]
    asker = Asker(session, ticket)
    principal = Principal(principal_id, **({} if attributes is None else read(attributes)))
    if_busy = cast("IfBusy", image["ifBusy"])
    if "invoke" in image:
        return InvokeRequested(
            asker=asker,
            run_id=run_id,
            name=image["invoke"],
            raw=image["raw"],
            follow_up=image["followUp"],
            if_busy=if_busy,
            principal=principal,
        )
    return RunRequested(
        asker=asker,
        run_id=run_id,
        agent=image["agent"],
        message=image["message"],
        after=image["after"],
        context=read_context(image["context"]),
        forwarded_props=image["forwardedProps"],
        if_busy=if_busy,
        principal=principal,
    )


def _principal_image(principal: Principal) -> list[Json]:
    try:
        return [principal.id, as_text(dict(principal.attributes))]
    except UsageError:
        return [principal.id, None]


def is_whole(image: Mapping[str, Json]) -> bool:
    """Whether all of the request could be kept."""
    return image["principal"][1] is not None


def context_image(item: ContextItem) -> list[Json]:
    return [item.name, item.description, item.value]


def read_context(image: list[Any]) -> tuple[ContextItem, ...]:
    return tuple(ContextItem(name=n, description=d, value=v) for n, d, v in image)


# ---- runs ------------------------------------------------------------------------------------


def run_image(run: Run) -> Image:
    """How far a run is; its request and its calls stand apart."""
    step = run.step
    return {
        "agent": run.agent,
        "announced": run.announced,
        "replied": run.replied,
        "restarts": run.restarts,
        "since": run.since,
        "base": step.base,
        "rounds": [[call.call_id for call in calls] for calls in run.rounds],
        "fingerprint": run.fingerprint,
        "repeats": run.repeats,
        "reflecting": run.reflecting,
        "output": as_text(run.output),
        "hasOutput": run.has_output,
        "usage": [dict(each) for each in run.usage],
        "subsMade": run.subs_made,
        "depth": step.depth,
        "ended": step.ended,
        "finishReason": step.finish_reason,
        "handoff": step.handoff,
        "speaker": step.agent,
        "withheld": sorted(step.withheld),
        "counted": step.counted,
        "reviewed": step.reviewed,
        "calls": [call.id for call in step.calls if call.ended],
        "delegated": bool(run.subs) or (step.delegated and not step.ended),
    }


def read_run(request: Request, image: Mapping[str, Json], calls: Mapping[CallId, Call]) -> Run:
    """The run as it was; a call that is no longer known is left out."""
    assert request.run_id is not None  # of `read_request`
    run = Run(
        id=request.run_id,
        request=request,
        agent=image["agent"],
        principal=request.principal,
        announced=image["announced"],
        replied=image["replied"],
        restarts=image["restarts"],
        since=image["since"],
        fingerprint=image["fingerprint"],
        repeats=image["repeats"],
        reflecting=image["reflecting"],
        output=read(image["output"]),
        has_output=image["hasOutput"],
        usage=[dict(each) for each in image.get("usage", ())],
        subs_made=image["subsMade"],
    )
    rounds = [[calls[name] for name in names if name in calls] for names in image["rounds"]]
    run.rounds = [tuple(call.value() for call in each if call.final) for each in rounds]
    run.results = run.rounds[-1] if run.rounds else ()
    run.step = _read_step(image, calls)
    return run


def _read_step(image: Mapping[str, Json], calls: Mapping[CallId, Call]) -> Step:
    return Step(
        depth=image["depth"],
        base=image["base"],
        calls=[calls[name] for name in image["calls"] if name in calls],
        ended=image["ended"],
        finish_reason=image["finishReason"],
        handoff=image["handoff"],
        agent=image["speaker"],
        withheld=frozenset(image["withheld"]),
        counted=image["counted"],
        reviewed=image["reviewed"],
        delegated=image["delegated"],
    )
