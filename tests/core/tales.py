"""Threads as they come: what happens on one is drawn, and then told to a world, move by move.

`moves` is the strategy; a `Tale` carries them out. A move that means nothing at its moment does
nothing, so every list of moves is a thread. Knows nothing of who reads along: `on_move` is called
after each move.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from tests.core.builders import Tab, World, spec, tool

from handspan.core.policy import Policy
from handspan.core.thread import Thread
from handspan_protocol import frames as f
from handspan_protocol.ids import RunId

Json = Any
TOOLS = (
    tool("plain"),
    tool("look", readOnly=True),
    tool("side", parallel=True, idempotent=True),
    tool("ask", approval="always", parallel=True),
)
NAMES = ("plain", "look", "side", "side", "ask", "srv", "nobody_has_it")
WORDS = ("Hel", "lo", " you", '"', "\\", "\n", "\u00e9", "\U0001f600", '"}', '{"delta":"')


class Tale:
    """One thread, one page that works on it, and what happens to them."""

    def __init__(self, make: Callable[..., World] = World) -> None:
        self.world = make(Policy(max_depth=4), server=(spec("srv"),))
        self.tab: Tab = self.world.tab("a", tools=TOOLS)
        self.count = 0

    @property
    def thread(self) -> Thread:
        return self.world.thread("t1")

    @property
    def log(self) -> list[bytes]:
        """Every event so far, as it was encoded."""
        found = self.thread.log.read(0, 1 << 62)
        assert found is not None
        return found

    def happens(self, moves: list[Any], on_move: Callable[[], None]) -> None:
        """Carry out all of them; then everything ends."""
        self.ask(0)
        on_move()
        for what, number in moves:
            getattr(self, what)(number)
            on_move()
        self.world.abort()
        on_move()

    # ---- those who ask -------------------------------------------------------------------------

    def ask(self, number: int) -> None:
        """Start a run; sometimes in place of what followed an older message."""
        if self.thread.run is not None and number % 4:
            return
        asked = [m["id"] for m in self.world.messages() if m["role"] == "user"]
        after = asked[number % len(asked)] if asked and number % 3 == 2 else None
        self.tab.run(f"question {number}", after=after, if_busy="queue")

    def press(self, number: int) -> None:
        """A button's call, with a follow-up or without."""
        self.tab.invoke(NAMES[number % len(NAMES)], {"n": number}, follow_up=number % 2 == 0)

    def abort(self, number: int) -> None:
        """A run, or one of its sub-runs."""
        live = self.thread.runs.live
        runs = [run.id for run in live if run.announced] if self.thread.run is not None else []
        if runs:
            self.tab.abort(run=runs[number % len(runs)])

    def set_state(self, number: int) -> None:
        """By the page, whole or patched; between runs too."""
        patch = ({"op": "add", "path": f"/k{number % 3}", "value": [number]},)
        given = {"patch": patch} if number % 3 else {"state": {"whole": number}}
        self.tab.ask(f.StateUpdate, thread_id="t1", **given)

    # ---- those who speak -----------------------------------------------------------------------

    def speaker(self, number: int) -> str | None:
        speaking = [r.id for r in self.thread.runs.live if r.step.opened and not r.step.ended]
        return speaking[number % len(speaking)] if speaking else None

    def text(self, number: int) -> None:
        for n in range(1 + number % 4):
            if (run := self.speaker(number)) is not None:
                self.world.text(run, WORDS[(number + n) % len(WORDS)])

    def think(self, number: int) -> None:
        for n in range(1 + number % 3):
            if (run := self.speaker(number)) is not None:
                self.world.think(run, WORDS[(number + n) % len(WORDS)])

    def call(self, number: int) -> None:
        if (run := self.speaker(number)) is not None:
            self.world.call(run, NAMES[number % len(NAMES)], {"n": number})

    def stream_a_call(self, number: int) -> None:
        """Its text piece by piece; often nobody says that it has ended."""
        self.count += 1
        named = {"toolCallId": f"call-{self.count}"}
        said: list[dict[str, Json]] = [
            {"type": "TOOL_CALL_START", "toolCallName": NAMES[number % len(NAMES)]},
            *({"type": "TOOL_CALL_ARGS", "delta": delta} for delta in ('{"n"', ":", "1", "}")),
            *([{"type": "TOOL_CALL_END"}] if number % 2 else []),
        ]
        for event in said:
            self.say_event({**event, **named}, number)

    def chunk(self, number: int) -> None:
        """A text, or thoughts, under an id of the agent's own; those of others are open beside."""
        kind = ("TEXT_MESSAGE_CHUNK", "REASONING_MESSAGE_CHUNK")[number % 5 == 0]
        for n in range(1 + number % 3):
            event = {"type": kind, "messageId": f"own-{number % 3}", "delta": WORDS[n]}
            self.say_event(event, number)

    def sign(self, number: int) -> None:
        """Something encrypted, for the newest message or call."""
        messages = self.world.messages()
        calls = [call["id"] for m in messages for call in m.get("toolCalls", ())]
        of_a_call = bool(calls) and number % 2 == 0
        named = {
            "subtype": "tool-call" if of_a_call else "message",
            "entityId": calls[-1] if of_a_call else messages[-1]["id"],
            "encryptedValue": f"secret {number}",
        }
        self.say_event({"type": "REASONING_ENCRYPTED_VALUE", **named}, number)

    def show_activity(self, number: int) -> None:
        at = {"messageId": f"plan-{number % 2}", "activityType": "plan"}
        if number % 3:
            patch = [{"op": "add", "path": "/n", "value": number}]
            self.say_event({"type": "ACTIVITY_DELTA", "patch": patch, **at}, number)
        else:
            self.say_event({"type": "ACTIVITY_SNAPSHOT", "content": {"n": number}, **at}, number)

    def patch_state(self, number: int) -> None:
        patch = [{"op": "add", "path": "/agent", "value": number}]
        self.say_event({"type": "STATE_DELTA", "delta": patch}, number)

    def say_event(self, event: dict[str, Json], number: int) -> None:
        if (run := self.speaker(number)) is not None:
            self.world.event(run, event["type"], **{k: v for k, v in event.items() if k != "type"})

    def delegate(self, number: int) -> None:
        """Any step may, a sub-run's too; what is begun often says its word and is done."""
        if (run := self.speaker(number)) is None:
            return
        self.count += 1
        sub = self.world.delegate(run, sub=f"sub-{self.count}")
        if number % 3 and self.thread.runs.live.get(RunId(sub)) is not None:
            self.world.text(sub, "said ")
            self.world.text(sub, "below")
            if number % 3 == 1:
                self.world.end(sub)

    def end(self, number: int) -> None:
        if (run := self.speaker(number)) is not None:
            self.world.end(run)

    def fail(self, number: int) -> None:
        if (run := self.speaker(number)) is not None:
            self.world.fail(run)

    # ---- those who answer ----------------------------------------------------------------------

    def answer(self, number: int) -> None:
        """Any of the calls that are out, so that results come in any order."""
        out = [c for c in self.tab.calls if (c.call_id, c.attempt) in self.tab.journal]
        if not out:
            return
        call = out[number % len(out)]
        if number % 4 == 0 and self.tab.journal[call.call_id, call.attempt] == "received":
            self.tab.started(call)
            self.tab.progress(call, number, message="on it")
        elif number % 5 == 0:
            self.tab.error(call)
        else:
            self.tab.result(call, {"n": number})

    def decide(self, number: int) -> None:
        """The newest questions of the page first."""
        for question in self.tab.questions[-1 - number % 3 :][:1]:
            self.tab.approve(question, number % 2 == 0)

    def return_from_server(self, number: int) -> None:
        calls = [c for c in self.thread.desk.open_calls.values() if c.name == "srv" and c.out]
        if calls:
            self.world.returned(calls[number % len(calls)].id, {"n": number})

    def wait(self, number: int) -> None:
        self.world.wait((0.2, 5.0, 61.0)[number % 3])


USUAL = "text text text think call call stream_a_call chunk end end answer answer decide"
RARE = "ask return_from_server delegate show_activity patch_state set_state sign press wait"
LAST = "abort fail"

moves = st.lists(
    st.tuples(
        st.sampled_from((*USUAL.split() * 4, *RARE.split() * 2, *LAST.split())),
        st.integers(0, 60),
    ),
    min_size=25,
    max_size=60,
)
"""What happens, a method of Tale each, and a number to choose by."""
