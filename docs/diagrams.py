"""The two tables of the core as diagrams, drawn from the tables themselves.

Owns what stands between the markers in bridge/README.md: a state diagram of
`core.call.TRANSITIONS` and a flowchart of `core.follow_up.ROWS`. Above sits `generate`.
"""

from collections.abc import Iterator
from typing import Final

from handspan.core.call import TRANSITIONS, CallState
from handspan.core.follow_up import ROWS

BEGIN: Final = "<!-- {}: written by docs/generate.py, from the code -->\n"
END: Final = "<!-- end -->\n"


def drawn(text: str) -> str:
    """The README with each diagram as it is now.

    Raises:
        ValueError: one of the markers is not there.
    """
    for name, lines in (("call states", call_states()), ("follow-up", follow_up())):
        begin = BEGIN.format(name)
        before, _, rest = text.partition(begin)
        _, end, after = rest.partition(END)
        if not end:
            raise ValueError(f"no place for {name!r}")
        diagram = "\n".join(["```mermaid", *lines, "```", ""])
        text = before + begin + diagram + end + after
    return text


def call_states() -> Iterator[str]:
    """One arrow for each pair of states, with every event that leads from one to the other."""
    arrows: dict[tuple[CallState, CallState], list[str]] = {}
    for (state, event), to in TRANSITIONS.items():
        arrows.setdefault((state, to), []).append(event.value)
    yield "stateDiagram-v2"
    yield f"    [*] --> {CallState.PROPOSED}"
    for (state, to), events in arrows.items():
        yield f"    {state} --> {to}: {', '.join(events)}"
    yield f"    {CallState.SETTLED} --> [*]"


def follow_up() -> Iterator[str]:
    """One question for each row; what is skipped is dotted."""
    yield "flowchart TD"
    yield "    settled([the step has settled]) --> r0"
    for number, row in enumerate(ROWS):
        yield f'    r{number}{{"{row.when}?"}} -- yes --> s{number}[stop: {row.reason}]'
        yield f"    r{number} -- no --> {_place(number + 1)}"
    yield from _jumps("handed over", [row.of_handover for row in ROWS])
    yield from _jumps("a button", [row.of_button for row in ROWS])
    yield "    on([depth + 1])"


def _place(number: int) -> str:
    return f"r{number}" if number < len(ROWS) else "on"


def _jumps(label: str, asked: list[bool]) -> Iterator[str]:
    """From the row before a gap to the row behind it."""
    for number in range(1, len(asked)):
        if asked[number - 1] and not asked[number]:
            to = next((n for n in range(number, len(asked)) if asked[n]), len(asked))
            yield f"    r{number - 1} -. {label} .-> {_place(to)}"
