"""What the mirrors of the core begin with: bare parts of a thread, and one call on its way.

The bare parts are for modules that are tested by themselves: a Space, a Run, a Call, with what a
test names and nothing else. `Scene` is a whole world with one page and one call, brought to a state
of the table in behaviour.md 3 in the usual way; what happens then is the test's. Nothing here
expects anything.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

from tests.core.builders import CountedIds, Tab, World, specs, tool

from handspan.core import inputs as i
from handspan.core.arguments import ToolSpec
from handspan.core.call import Call, CallEvent, CallState, Settlement
from handspan.core.parties import ANONYMOUS, Asker, ThreadKey
from handspan.core.policy import Policy
from handspan.core.run import Run
from handspan.core.space import Space
from handspan_protocol.codec import parse_json
from handspan_protocol.ids import CallId, MessageId, RunId, ThreadId

Json = Any
KEY = ThreadKey("anonymous", ThreadId("t1"))

# ---- bare parts -------------------------------------------------------------------------------


def a_space(*server: ToolSpec, **policy: Any) -> Space:
    """The shared part of a thread that nothing has happened on."""
    return Space(KEY, Policy(**policy), CountedIds(), specs(*server))


def logged(space: Space) -> list[dict[str, Json]]:
    """Every event in the log."""
    found = space.log.read(space.log.base, 1 << 30)
    assert found is not None
    return [parse_json(event) for event in found]


def asked_by(session: str | None = None, ticket: str = "d 1") -> Asker:
    return Asker(session, ticket)


def a_run(run_id: str = "r1", *, session: str | None = None, **given: Any) -> Run:
    """A run of the agent `default` that was asked for by `session`; nothing has happened in it."""
    request = given.pop("request", None) or i.RunRequested(asker=asked_by(session))
    rest = {"agent": "default", "principal": ANONYMOUS} | given
    return Run(id=RunId(run_id), request=request, **rest)


def a_button(run_id: str = "r1", *, session: str | None = None, **given: Any) -> Run:
    """A run whose step 0 is the call of a button."""
    asked = {"name": "t", "raw": "{}", **given}
    return a_run(run_id, request=i.InvokeRequested(asker=asked_by(session), **asked))


def a_call(call_id: str = "c1", *, run: str = "r1", **given: Any) -> Call:
    """A call of the tool `t`; proposed, if nothing else is said."""
    rest = {"depth": 0, "name": "t", "message_id": MessageId("m1")} | given
    pieces = rest.pop("raw", None)
    if pieces is not None:
        rest["pieces"] = [pieces]
    return Call(id=CallId(call_id), run_id=RunId(run), **rest)


def settled(call: Call, value: Json = None, **given: Any) -> Call:
    """The call, which its holder has answered."""
    call.state = CallState.STARTED
    answer = given.pop("answer", None) or i.Answer(value=value)
    call.settle(Settlement(by=CallEvent.ANSWERED, answer=answer, **given))
    return call


def unset(one: Any) -> set[str]:
    """The fields of a frozen, slotted fact; a test says what each must be."""
    assert not hasattr(one, "__dict__")
    return {field.name for field in fields(one)}


# ---- one call on its way ------------------------------------------------------------------------


@dataclass
class Scene:
    """A world, its page, the run, and the call of `t` that it is all about."""

    world: World
    tab: Tab
    run: str

    @property
    def call(self) -> Call:
        """The call of `t`."""
        return next(c for c in self.world.thread("t1").desk.calls.values() if c.name == "t")

    @property
    def code(self) -> str | None:
        """What it settled as: its code, or its outcome; None: it is open."""
        settlement = self.call.final
        return None if settlement is None else settlement.told().get("code", settlement.outcome)

    def tell(self, message: Any) -> list[Any]:
        return self.world.tell(self.world.key("t1"), message)


Reach = Callable[[Scene], None]


def a_scene(
    make: Callable[..., World],
    reach: Reach,
    *,
    server: Iterable[ToolSpec] = (),
    hooks: Iterable[str] = (),
    tools: Iterable[Json] | None = None,
    policy: dict[str, Any] | None = None,
    **fields: Json,
) -> Scene:
    """A page with the tools `first` and `t` (these are its `fields`), whose run has reached there.

    `tools`: exactly these instead.
    """
    world = make(server=server, hooks=hooks, **(policy or {}))
    made = [tool("first"), tool("t", **fields)] if tools is None else list(tools)
    tab = world.tab("a", tools=made)
    scene = Scene(world, tab, tab.run("please"))
    reach(scene)
    return scene


def proposed(scene: Scene) -> None:
    """Announced; its step has not ended."""
    scene.world.call(scene.run, "t", {"x": 1})


def ended(scene: Scene) -> None:
    """Its step has ended: it is wherever its tool and its page let it go."""
    proposed(scene)
    scene.world.end(scene.run)


def queued_behind(scene: Scene) -> None:
    """Another call of its page is at work."""
    scene.world.call(scene.run, "first")
    ended(scene)


def queued_away(scene: Scene) -> None:
    """Its page has no socket."""
    scene.tab.drop()
    ended(scene)


def started(scene: Scene) -> None:
    """Its page has leave to start."""
    ended(scene)
    assert scene.tab.started(scene.tab.call("t")) == "go"


def answered(scene: Scene) -> None:
    """Its page has answered 7."""
    started(scene)
    assert scene.tab.result(scene.tab.call("t"), 7) == "applied"
