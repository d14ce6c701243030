"""What the application's hooks answer in the machine of `test_machine`: well, badly, late, anew."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from tests.core.builders import World
from tests.core.machine_parts import at, does
from tests.core.orders import Orders, Question

from handspan.core import inputs as i
from handspan.core.parties import ThreadKey
from handspan_protocol.ids import RunId

MANNERS = ("yes", "yes", "changed", "no", "failed", "third")


class Application:
    """Actions of hooks, stop conditions and the suggest function."""

    world: World
    orders: Orders

    @does(10, "open question", which=at, manner=st.sampled_from(MANNERS))
    def a_hook_answers(self, which, manner):
        asked = self.open_questions()
        self.say_to(asked[which % len(asked)], manner)

    @does(10, "open question", thread=at)
    def hooks_let_it_go_on(self, thread):
        """So that a run comes to its next depth."""
        asked = self.open_questions()
        self.let_go_on(asked[thread % len(asked)].key)

    @does(2, "question", which=at, manner=st.sampled_from(MANNERS), like=at)
    def a_hook_answers_anything(self, which, manner, like):
        """Late, twice, or what another hook was asked; `Questions` knows whether it may count."""
        every = self.orders.questions.asked
        asked, other = every[which % len(every)], every[like % len(every)]
        if asked.kind == other.kind or isinstance(asked.order, type(other.order)):
            self.say_to(asked, manner)
            self.say_to(asked, manner)
        else:
            self.world.tell(asked.key, answer_to(other, "yes", subject=asked.subject))

    @does(2, "open question", which=at)
    def another_is_judged_than_was_asked_about(self, which):
        """Another depth of the run, or another run."""
        asked = self.open_questions()[which % len(self.open_questions())]
        for depth in (asked.depth - 1, asked.depth + 1):
            for kind in (i.StopsJudged, i.StepReviewed):
                more = (True,) if kind is i.StopsJudged else ()
                self.world.tell(asked.key, kind(asked.subject, depth, *more))
        self.world.tell(asked.key, i.SuggestionsMade(RunId("another"), ("more",)))

    def open_questions(self) -> list[Question]:
        return list(self.orders.questions.open.values())

    def say_to(self, asked: Question, manner: str) -> None:
        self.world.tell(asked.key, answer_to(asked, manner))

    def let_go_on(self, key: ThreadKey) -> None:
        for _ in range(12):
            asked = [one for one in self.open_questions() if one.key == key]
            if not asked:
                break
            self.say_to(asked[0], "yes")


def answer_to(asked: Question, manner: str, subject: Any = None) -> Any:
    """What a hook of this kind tells the thread; `yes` is what lets the run go on."""
    of, order = subject or asked.subject, asked.order
    match asked.kind:
        case "before_run":
            return _judge_run(of, order, manner)
        case "before_call":
            verdicts = {"no": "deny", "failed": "deny", "third": "ask"}
            return i.CallJudged(of, verdicts.get(manner, "allow"), "because")
        case "repair_arguments":
            repaired = {"yes": {"x": 2}, "changed": {}, "third": {"x": "2"}}
            return i.ArgumentsRepaired(of, repaired.get(manner))
        case "after_call":
            return i.ResultRevised(of, _revised(manner))
        case "after_step":
            return i.StepReviewed(of, asked.depth)
        case "stop_when":
            return i.StopsJudged(of, asked.depth, manner in ("no", "third"))
        case _:
            return i.SuggestionsMade(of, ("more",) if manner == "yes" else ())


def _judge_run(of: Any, order: Any, manner: str) -> i.RunJudged:
    if manner in ("no", "failed"):
        code = "denied" if manner == "no" else "agent_error"
        return i.RunJudged(run_id=of, code=code, message="because")
    request = order.request
    if isinstance(request, i.RunRequested):
        agents = {"changed": "other", "third": "nobody"}
        message = {"role": "user", "content": manner}
        agent = agents.get(manner, request.agent)
        request = replace(request, agent=agent, message=message)
    return i.RunJudged(run_id=of, request=request)


def _revised(manner: str) -> i.Answer | None:
    match manner:
        case "changed":
            return i.Answer(value={"n": "changed"})
        case "third":
            return i.Answer(content=({"type": "text", "text": "changed"},))
        case "no":
            return i.Answer(error_message="no", error_code="mine")
    return None
