"""What must hold of inputs and effects, whatever happened: what was ordered, asked and promised.

`Orders` reads every input and effect of every machine (P1, P2, P5, P7). Beside it `Questions` keep
what the application's hooks were asked, and `Promises` who was promised an answer: each question
and each promise ends exactly once.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from tests.core.builders import World

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core import session_inputs as s
from handspan.core.call import CallState
from handspan.core.parties import ThreadKey
from handspan.core.transcript import broken_rules

Name = tuple[Any, str]
"""A call or a run: its thread and its id, which may come again elsewhere."""


class Orders:
    """Reads every input and effect: what was ordered once may not be ordered again."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.questions = Questions(self)
        self.promises = Promises()
        self.begun: list[tuple[ThreadKey, e.StartStep]] = []
        """Every step that was ordered."""
        self.begun_tools: list[tuple[ThreadKey, str]] = []
        """The call of every server tool that was."""
        self.steps: set[tuple[Name, int]] = set()
        self.over: set[Name] = set()
        self.runs_over: Counter[Name] = Counter()
        self.offers: dict[tuple[Name, int], str] = {}
        self.attempts: dict[Name, int] = {}
        self.leaves: Counter[tuple[Name, int]] = Counter()
        self.tools: Counter[Name] = Counter()
        self.settled: set[Name] = set()
        self.repeatable: dict[Name, bool] = {}
        self.heads: dict[ThreadKey, int] = {}
        world.watchers.append(self.watch)

    def watch(self, target: Any, message: Any, effects: list[Any]) -> None:
        if not isinstance(target, ThreadKey):
            return
        thread = self.world.threads[target]
        grown = thread.head - self.heads.get(target, 0)
        asked = self.questions.answered(target, message)
        if asked is None and type(message) in ANSWERS:
            assert (effects, grown) == ([], 0), f"P5: {message} was not wanted"
        self.promises.asked(target, message)
        for effect in effects:
            self._effect(target, effect)
        if isinstance(message, i.LeaveAsked | i.ResultGiven | i.ApprovalGiven):
            self._refused_changes_nothing(target, message, effects, grown)
        if asked is not None:
            obeyed(asked, message, thread)
        self.heads[target] = thread.head
        if thread.run is None:
            assert broken_rules(thread.space.transcript.view()) == [], "P1: after a run"
        if any(isinstance(effect, e.ThreadOver) for effect in effects):
            self._forget(target)
        else:
            self.questions.look(target, thread)
            self.promises.look(target, thread)

    def _refused_changes_nothing(
        self, target: Any, message: Any, effects: list[Any], grown: int
    ) -> None:
        replies = [x for x in effects if isinstance(x, e.Reply) and x.asker == message.asker]
        assert len(replies) == 1, "P7: every answer is answered once"
        status = None if replies[0].error else replies[0].result["status"]
        if status in ("go", "applied"):
            if status == "go":
                self._leave(target, message)
            return
        assert len(effects) == 1, f"P7: {status} changed something: {effects}"
        assert grown == 0, f"P7: {status} said something"

    def _leave(self, target: Any, message: i.LeaveAsked) -> None:
        name = (target, message.call_id)
        key = (name, message.attempt)
        self.leaves[key] += 1
        assert self.leaves[key] == 1, f"P2: leave for {key} twice"
        assert self.offers.get(key) == message.asker.session, f"P7: leave for {key} to another page"
        assert name not in self.settled, f"P2: leave for {key}, which is settled"

    def _effect(self, target: Any, effect: Any) -> None:
        if isinstance(effect, _FOR_A_RUN):
            self.may_go_on(target, effect.run_id)
        self.questions.effect(target, effect)
        self.promises.effect(target, effect)
        match effect:
            case e.StartStep():
                self._step(target, effect)
            case e.StartTool():
                self.begun_tools.append((target, effect.call_id))
                self.tools[target, effect.call_id] += 1
                assert self.tools[target, effect.call_id] == 1, f"P2: {effect.call_id} runs twice"
                assert (target, effect.call_id) not in self.settled, "P5: a settled call starts"
            case e.TellSession(session, s.CallOffered(_, frame, _)):
                self._offer(target, session, frame)
            case e.GiveResult():
                self._run_over(target, effect.value.run_id)
            case e.RunOver():
                self._run_over(target, effect.value.run_id)
            case e.Record((fact,)) if fact.kind == "call_settled":
                name = (target, fact.data["callId"])
                assert name not in self.settled, f"P2: {name} settles twice"
                self.settled.add(name)

    def _run_over(self, target: Any, run_id: str) -> None:
        name = (target, run_id)
        self.over.add(name)
        self.runs_over[name] += 1
        assert self.runs_over[name] == 1, f"P5: {run_id} is over twice"
        assert not self.promises.of(name), f"{run_id} is over, and {self.promises.of(name)} wait"

    def _forget(self, key: Any) -> None:
        """A thread that was deleted may come again, and its runs' and calls' ids with it."""
        self.questions.forget(key)
        self.promises.forget(key)
        self.settled = {name for name in self.settled if name[0] != key}
        self.over = {name for name in self.over if name[0] != key}
        self.steps = {k for k in self.steps if k[0][0] != key}
        self.attempts = {k: v for k, v in self.attempts.items() if k[0] != key}
        self.tools = Counter({k: v for k, v in self.tools.items() if k[0] != key})
        self.runs_over = Counter({k: v for k, v in self.runs_over.items() if k[0] != key})
        self.offers = {k: v for k, v in self.offers.items() if k[0][0] != key}
        self.leaves = Counter({k: v for k, v in self.leaves.items() if k[0][0] != key})
        self.heads.pop(key, None)

    def may_go_on(self, target: Any, run_id: str) -> None:
        assert (target, run_id) not in self.over, f"P5: {run_id} is over and still orders something"

    def _step(self, target: Any, effect: e.StartStep) -> None:
        key = ((target, effect.run_id), effect.depth)
        assert key not in self.steps, f"P2: step {key} starts twice"
        self.steps.add(key)
        self.begun.append((target, effect))
        owner = None if effect.parent is None else effect.run_id
        if effect.parent is not None:
            self.may_go_on(target, effect.parent)
        assert all(m.get("subagentRunId") == owner for m in effect.messages), "another's messages"
        assert broken_rules(effect.messages) == [], "P1: a model would be shown this"
        assert all(spec.name != "*" for spec in effect.tools), "P13: * is shown to a model"

    def _offer(self, key: ThreadKey, session: str, frame: Any) -> None:
        call = self.world.threads[key].desk.calls[frame.call_id]
        self.may_go_on(key, frame.run_id)
        self.may_go_on(key, call.own_run_id)
        name = (key, frame.call_id)
        offer = (name, frame.attempt)
        assert self.offers.setdefault(offer, session) == session, f"P2: {offer} goes to two pages"
        before = self.attempts.get(name, 0)
        assert frame.attempt in (before, before + 1), f"P2: attempt {before}, then {frame.attempt}"
        if before and frame.attempt > before:
            unsafe = self.leaves[name, before] and not self.repeatable[name]
            assert not unsafe, f"P2: {name} had started and is offered again"
        if frame.attempt == before:
            assert not self.leaves[offer], f"P2: {offer} had leave and is offered again"
        self.attempts[name] = frame.attempt
        self.repeatable[name] = call.repeatable
        assert name not in self.settled, f"P2: {name} is settled and offered"
        assert call.spec is not None
        wild = call.spec.name == "*" != call.name
        given = {"toolName": call.name, "args": call.args} if wild else call.args
        assert frame.args == given
        assert call.spec.arguments.problems(given) == (), "P3: arguments do not fit the schema"


_FOR_A_RUN: Final = (
    e.StartStep,
    e.StopStep,
    e.StartTool,
    e.JudgeStops,
    e.JudgeRun,
    e.JudgeCall,
    e.RepairArguments,
    e.ReviseResult,
    e.ReviewStep,
)
"""What is ordered for a run, or a sub-run, and for none that is over (P5)."""


# ---- questions --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """What a hook was asked; `order` is the effect that asked it."""

    key: ThreadKey
    kind: str
    subject: str
    depth: int
    order: Any


class Questions:
    """P5, P14: what a hook is asked is answered once or called off, and nothing else is heard."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self.open: dict[tuple[ThreadKey, str, str], Question] = {}
        """By thread, manner (of a run or call under way, or of one that is over) and subject."""
        self.asked: list[Question] = []
        """All that ever were."""
        self._once: set[tuple[ThreadKey, str, str, int]] = set()

    def answered(self, key: Any, message: Any) -> Question | None:
        """The question that this answers, and that is closed with it; None: there is none."""
        kind = ANSWERS.get(type(message))
        if kind is None:
            return None
        name = (key, _manner(kind), _subject(message))
        asked = self.open.get(name)
        depth = getattr(message, "depth", None)
        if asked is None or asked.kind != kind or depth not in (None, asked.depth):
            return None
        return self.open.pop(name)

    def effect(self, key: Any, effect: Any) -> None:
        if type(effect) in _ASKS:
            self._ask(key, effect, _ASKS[type(effect)])
        elif isinstance(effect, e.StopHook):
            asked = self.open.pop((key, "hook", effect.subject), None)
            assert asked is not None, f"{effect} calls off what nobody was asked"
        elif isinstance(effect, e.StopSuggesting):
            asked = self.open.pop((key, "suggest", effect.run_id), None)
            assert asked is not None, f"{effect} calls off what nobody was asked"

    def _ask(self, key: ThreadKey, effect: Any, kind: str) -> None:
        asked = Question(key, kind, _subject(effect), getattr(effect, "depth", 0), effect)
        name = (key, _manner(kind), asked.subject)
        assert name not in self.open, f"{asked} while {self.open.get(name)} is open"
        self.open[name] = asked
        self.asked.append(asked)
        if kind != "before_call":  # a definition that changed meanwhile is judged anew
            mark = (key, kind, asked.subject, asked.depth)
            assert mark not in self._once, f"{asked} for the second time"
            self._once.add(mark)
        settled = (key, asked.subject) in self._orders.settled
        if kind in ("before_call", "repair_arguments"):
            assert not settled, f"P5: {asked} of a settled call"
        if kind == "after_call":
            assert settled, f"{asked} of a call that is not settled"
        if kind == "suggest":
            assert (key, asked.subject) in self._orders.over, f"{asked} of a run under way"

    def look(self, key: ThreadKey, thread: Any) -> None:
        """What is open is what the thread waits for, and the other way round."""
        waited = {("hook", c.id): c.hook for c in thread.desk.calls.values() if c.hook is not None}
        waited |= {("hook", r.id): r.asking for r in thread.runs.live if r.asking is not None}
        if thread.runs.suggesting.of is not None:
            waited["suggest", thread.runs.suggesting.of] = "suggest"
        here = {k[1:]: asked.kind for k, asked in self.open.items() if k[0] == key}
        assert here == waited, f"P5: hooks are asked {here}, and {waited} is waited for"

    def forget(self, key: ThreadKey) -> None:
        left = [asked for asked in self.open.values() if asked.key == key]
        assert not left, f"P5: the thread is deleted, and {left} are open"
        self._once = {mark for mark in self._once if mark[0] != key}


_ASKS: Final[dict[type, str]] = {
    e.JudgeRun: "before_run",
    e.JudgeCall: "before_call",
    e.RepairArguments: "repair_arguments",
    e.ReviseResult: "after_call",
    e.ReviewStep: "after_step",
    e.JudgeStops: "stop_when",
    e.Suggest: "suggest",
}

ANSWERS: Final[dict[type, str]] = {
    i.RunJudged: "before_run",
    i.CallJudged: "before_call",
    i.ArgumentsRepaired: "repair_arguments",
    i.ResultRevised: "after_call",
    i.StepReviewed: "after_step",
    i.StopsJudged: "stop_when",
    i.SuggestionsMade: "suggest",
}


def obeyed(asked: Question, message: Any, thread: Any) -> None:
    """A verdict is obeyed, and holds only for what was judged (P10)."""
    if isinstance(message, i.RunJudged):
        assert message.request is not None or thread.runs.live.get(message.run_id) is None
    if not isinstance(message, i.CallJudged):
        return
    call = thread.desk.calls.get(message.call_id)
    if call is None or not call.open or call.hook is not None:
        return
    assert message.verdict != "deny", f"{call.id} was denied, and is {call.state}"
    waits = call.state is CallState.WAITING_APPROVAL
    asks = message.verdict == "ask" and not thread.desk.approvals.remembered(call.spec)
    assert waits is asks, f"{message.verdict}, and {call.id} is {call.state}"
    judged = (asked.order.spec.digest, asked.order.args)
    assert (call.spec.digest, call.args) == judged, f"{call.id} is not what was judged"


def _manner(kind: str) -> str:
    return "suggest" if kind == "suggest" else "hook"


def _subject(of: Any) -> str:
    if isinstance(of, e.ReviseResult | e.Suggest):
        value = of.value
        return value.call_id if isinstance(value, e.CallValue) else value.run_id
    return of.call_id if hasattr(of, "call_id") else of.run_id


# ---- promises ---------------------------------------------------------------------------------


class Promises:
    """Whoever waits is answered, once: code inside a step, and whoever sent a command."""

    def __init__(self) -> None:
        self.tickets: dict[tuple[ThreadKey, str], tuple[type, str]] = {}
        """What each ticket waits for, and the run whose step waits."""
        self.askers: dict[tuple[ThreadKey, Any], Any] = {}
        """Commands without a reply."""
        self.accepted: dict[tuple[ThreadKey, Any], str] = {}
        """Runs that were accepted and are not over, by who asked."""

    def asked(self, key: ThreadKey, message: Any) -> None:
        match message:
            case i.CallSaid(ticket=str(ticket)):
                self._wait(key, ticket, e.GiveValue, message.run_id)
            case i.DelegateSaid(ticket=ticket):
                self._wait(key, ticket, e.GiveResult, message.run_id)
        asker = getattr(message, "asker", None)
        if asker is not None:
            assert (key, asker) not in self.askers, f"{asker} asks twice at once"
            self.askers[key, asker] = message

    def _wait(self, key: ThreadKey, ticket: str, kind: type, run_id: str) -> None:
        assert (key, ticket) not in self.tickets, f"ticket {ticket} waits twice"
        self.tickets[key, ticket] = (kind, run_id)

    def effect(self, key: ThreadKey, effect: Any) -> None:
        match effect:
            case e.GiveValue(ticket) | e.GiveResult(ticket):
                waits = self.tickets.pop((key, ticket), None)
                assert waits is not None, f"{effect} for nobody, or for the second time"
                assert waits[0] is type(effect)
            case e.Reply(asker):
                asked = self.askers.pop((key, asker), None)
                assert asked is not None, f"{effect} for nobody, or for the second time"
                if isinstance(asked, i.RunRequested) and effect.error is None:
                    self.accepted[key, asker] = effect.result["runId"]
            case e.RunOver(asker, value):
                run_id = self.accepted.pop((key, asker), value.run_id)
                assert run_id == value.run_id, f"{asker} is told of another run's end"

    def of(self, name: Name) -> list[str]:
        """The tickets that steps of this run, or sub-run, wait with."""
        key, run_id = name
        return [t for (k, t), (_, run) in self.tickets.items() if k == key and run == run_id]

    def look(self, key: ThreadKey, thread: Any) -> None:
        """Between two inputs only those wait whose run goes on."""
        live = {run.id for run in thread.runs.live}
        waits = {run_id for (k, _), (_, run_id) in self.tickets.items() if k == key}
        assert waits <= live, f"code of {waits - live} waits for ever"
        requests = [request.asker for request in thread.runs.queue]
        if thread.run is not None:
            requests.append(thread.run.asker)
        for (k, asker), message in self.askers.items():
            if k == key:
                assert isinstance(message, i.InvokeRequested), f"{message} has no reply"
                assert asker in requests, f"{message} will never have a reply"
        left = {asker for k, asker in self.accepted if k == key}
        assert left <= set(requests), f"the end of the runs of {left} was never told"

    def forget(self, key: ThreadKey) -> None:
        for promised in (self.tickets, self.askers, self.accepted):
            left = [name for name in promised if name[0] == key]
            assert not left, f"the thread is deleted, and {left} wait"
