"""How a call that was announced becomes one that may be carried out, or is refused.

Owns what stands between: who would answer it, whether its text is good arguments, what hooks say of
it and what a human says of it. Each of the three may settle it. Deliberately carries nothing out:
what it lets through is *queued*, and `desk` sees it to its end.

A hook is asked only where somebody registered one, and its answer is taken only while it is awaited
(`call.hook`): one that comes after an abort starts nothing (P5). Whoever would answer the call is
looked for again behind each answer, since pages come and go meanwhile; a tool whose definition has
changed is judged anew. *Source:* behaviour.md 3.
"""

from collections.abc import Collection
from typing import Any

from handspan_protocol.errors import CallCode, CallStatus, CommandCode, PeerError

from .arguments import BadArguments, ToolSpec, fit, parse_arguments
from .call import Call, CallEvent, refusal
from .desk import Desk
from .effects import JudgeCall, RepairArguments
from .inputs import ApprovalGiven
from .live import Live
from .registry import Found, is_withheld, unknown_tool
from .run import Run
from .space import Space

Json = Any


class Proposals:
    """From announcement to queue."""

    __slots__ = ("_desk", "_hooks", "_live", "_space")

    def __init__(self, space: Space, live: Live, desk: Desk, hooks: Collection[str]) -> None:
        self._space = space
        self._live = live
        self._desk = desk
        self._hooks = hooks

    # ---- proposing ---------------------------------------------------------------------------

    def propose(self, call: Call) -> None:
        """The call is final and may be carried out: resolve, read, judge, ask or queue it."""
        found = self._resolved(call)
        if found is None:
            return
        self._desk.assign(call, found)
        args = _read(call, found.spec)
        if not isinstance(args, BadArguments):
            self._judge(call, found.spec, args)
        elif "repair_arguments" in self._hooks:
            call.hook = "repair_arguments"
            self._space.do(
                RepairArguments(
                    call_id=call.id,
                    run_id=call.own_run_id,
                    depth=call.depth,
                    name=call.name,
                    raw=call.raw,
                    bad=args,
                    spec=found.spec,
                )
            )
        else:
            self._desk.refuse(call, CallCode.INVALID_ARGUMENTS, args.message)

    def _resolved(self, call: Call) -> Found | None:
        """Who would carry it out; None: nobody may, and it is settled."""
        if call.over_limit is not None:
            self._desk.refuse(call, CallCode.LIMIT, f"this call is {call.over_limit}")
            return None
        run = self._live.of(call)
        found = None if call.name in run.step.withheld else self._desk.find(call)
        if found is None:
            self._refuse_name(run, call)
        return found

    def _refuse_name(self, run: Run, call: Call) -> None:
        pages = self._space.serving(run.starter)
        if call.name in run.step.withheld or is_withheld(call.name, pages, self._space.server):
            self._desk.refuse(call, CallCode.UNAVAILABLE, "this tool is not available now")
        else:
            known = self._desk.offered(run)
            self._desk.refuse(call, CallCode.UNKNOWN_TOOL, unknown_tool(call.name, known))

    def _judge(self, call: Call, spec: ToolSpec, args: dict[str, Json]) -> None:
        """The arguments are good: a hook has its say, where there is one."""
        call.args = args
        asks = self._desk.approvals.needed(spec)
        if "before_call" not in self._hooks:
            self._admit(call, asks, None)
            return
        call.hook = "before_call"
        self._space.do(
            JudgeCall(
                call_id=call.id,
                run_id=call.own_run_id,
                depth=call.depth,
                name=call.name,
                args=args,
                spec=spec,
                asks=asks,
            )
        )

    def _admit(self, call: Call, asks: bool, reason: str | None) -> None:
        if asks:
            self._desk.approvals.ask(call, CallEvent.ASKED, reason)
        else:
            call.move(CallEvent.READY)

    # ---- what hooks say ----------------------------------------------------------------------

    def repaired(self, call: Call, args: dict[str, Json] | None) -> None:
        """`repair_arguments` gave others, which must fit, or gave up."""
        if not call.awaited("repair_arguments"):
            return
        found = self._resolved(call)
        if found is None:
            return
        good = _read(call, found.spec) if args is None else fit(call.name, args, found.spec)
        self._take(call, found, good)

    def judged(self, call: Call, verdict: str, reason: str | None) -> None:
        """`before_call` said allow, deny or ask; a tool that changed meanwhile is judged anew."""
        if not call.awaited("before_call"):
            return
        spec, found = call.spec, self._resolved(call)
        if found is None:
            return
        if verdict == "deny":
            self._desk.refuse(call, CallCode.DENIED, reason or "this call is not allowed")
        elif spec is None or found.spec.digest != spec.digest:
            self._take(call, found, fit(call.name, call.args, found.spec))
        else:
            self._desk.assign(call, found)
            call.judged = True
            asks = verdict == "ask" and not self._desk.approvals.remembered(found.spec)
            self._admit(call, asks, reason)

    def _take(self, call: Call, found: Found, args: dict[str, Json] | BadArguments) -> None:
        """These are its arguments, for this tool; bad ones are not repaired once more."""
        self._desk.assign(call, found)
        if isinstance(args, BadArguments):
            self._desk.refuse(call, CallCode.INVALID_ARGUMENTS, args.message)
        else:
            self._judge(call, found.spec, args)

    # ---- what humans say ---------------------------------------------------------------------

    def approve(self, call: Call, given: ApprovalGiven) -> CallStatus:
        """`approval.answer` to the open question; the first answer decides.

        Raises:
            PeerError: `unknown_call`: nobody was asked about it.
        """
        if not call.asked:
            raise PeerError(CommandCode.UNKNOWN_CALL, "nobody was asked about this call")
        said = (given.digest, given.approved, given.reason, given.args, given.remember)
        if call.approval is None or given.digest != call.approval.digest:
            return CallStatus.DUPLICATE if said == call.decision else CallStatus.LATE
        call.approval, call.decision = None, said
        self._space.record("call_decided", callId=call.id)
        self._decide(call, given)
        return CallStatus.APPLIED

    def _decide(self, call: Call, given: ApprovalGiven) -> None:
        assert call.spec is not None  # resolved before anybody was asked
        if not given.approved:
            message = given.reason or "the user said no"
            self._desk.settle(call, refusal(CallEvent.DENIED, CallCode.DENIED, message))
            return
        if given.args is not None:
            args = fit(call.name, dict(given.args), call.spec)
            if isinstance(args, BadArguments):
                self._desk.refuse(call, CallCode.INVALID_ARGUMENTS, args.message)
                return
            call.args = args
        if given.remember:
            self._desk.approvals.remember(call.spec)
        call.move(CallEvent.APPROVED)


def _read(call: Call, spec: ToolSpec) -> dict[str, Json] | BadArguments:
    """The call's text, read and checked under the schema of the tool that will carry it out."""
    args = parse_arguments(call.raw)
    return args if isinstance(args, BadArguments) else fit(call.name, args, spec)
