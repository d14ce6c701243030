"""Fragments of calls, in every way in which servers send them (C001, C006, C007, C019, C053)."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.model.assembler import Assembler

Json = Any


def said(*fragments: dict[str, Json]) -> list[tuple[str, str]]:
    """The calls that these come to: name and text, in order; each has one start and one end."""
    assembler, events = Assembler(), list[Any]()
    for fragment in fragments:
        events += assembler.feed(**fragment)
    events += assembler.end()
    order, names, texts, ended = list[str](), dict[str, str](), dict[str, str](), set[str]()
    for event in events:
        key = event.tool_call_id
        if event.type == "TOOL_CALL_START":
            assert key not in names
            order.append(key)
            names[key], texts[key] = event.tool_call_name, ""
        elif event.type == "TOOL_CALL_ARGS":
            assert key not in ended
            texts[key] += event.delta
        else:
            assert key in names
            ended.add(key)
    assert ended == set(names)
    return [(names[key], texts[key]) for key in order]


def f(arguments: Json = None, **more: Json) -> dict[str, Json]:
    return {"arguments": arguments, **more}


CASES = {
    "by index": (
        [f(index=0, call_id="a", name="x"), f('{"n"', index=0), f(":1}", index=0)],
        [("x", '{"n":1}')],
    ),
    "two that alternate": (
        [
            f(index=0, call_id="a", name="x"),
            f(index=1, call_id="b", name="y"),
            f('{"n"', index=0),
            f('{"m"', index=1),
            f(":1}", index=0),
            f(":2}", index=1),
        ],
        [("x", '{"n":1}'), ("y", '{"m":2}')],
    ),
    "id and name with every fragment": (
        [f(piece, index=0, call_id="a", name="x") for piece in ('{"n"', ":", "1}", "")],
        [("x", '{"n":1}')],
    ),
    "two ids, one index": (
        [
            f('{"n":1}', index=0, call_id="a", name="x"),
            f('{"n":2}', index=0, call_id="b", name="x"),
        ],
        [("x", '{"n":1}'), ("x", '{"n":2}')],
    ),
    "two ids, one index, in turn": (
        [
            f('{"n"', index=0, call_id="a", name="x"),
            f('{"m"', index=0, call_id="b", name="y"),
            f(":1}", index=0, call_id="a"),
            f(":2}", index=0, call_id="b"),
        ],
        [("x", '{"n":1}'), ("y", '{"m":2}')],
    ),
    "one id, two indices": (
        [
            f('{"n":1}', index=0, call_id="x", name="x"),
            f('{"n":2}', index=1, call_id="x", name="x"),
        ],
        [("x", '{"n":1}'), ("x", '{"n":2}')],
    ),
    "no index": (
        [
            f(call_id="a", name="x"),
            f('{"n"'),
            f(":1}"),
            f(call_id="b", name="y"),
            f("{}"),
        ],
        [("x", '{"n":1}'), ("y", "{}")],
    ),
    "no id": (
        [f(index=0, name="x"), f("{}", index=0), f(index=1, name="y"), f("{}", index=1)],
        [("x", "{}"), ("y", "{}")],
    ),
    "an empty id": (
        [f(index=0, call_id="", name="x"), f("{}", index=0, call_id="")],
        [("x", "{}")],
    ),
    "neither id nor index": (
        [f(name="x"), f('{"n":'), f("1}"), f(name="y"), f("{}")],
        [("x", '{"n":1}'), ("y", "{}")],
    ),
    "neither, and the same tool twice": (
        [f('{"n":1}', name="x"), f('{"n":2}', name="x")],
        [("x", '{"n":1}'), ("x", '{"n":2}')],
    ),
    "neither, the name alone before each": (
        [f(name="x"), f('{"n":1}'), f(name="x"), f('{"n":2}')],
        [("x", '{"n":1}'), ("x", '{"n":2}')],
    ),
    "neither, the name once more behind it": (
        [f(name="x"), f('{"n":1}', name="x"), f("", name="x")],
        [("x", '{"n":1}')],
    ),
    "another name at one index, without ids": (
        [f("{}", index=0, name="x"), f("{}", index=0, name="y")],
        [("x", "{}"), ("y", "{}")],
    ),
    "the id late": (
        [f(index=0, name="x"), f('{"n"', index=0, call_id="a"), f(":1}", index=0, call_id="a")],
        [("x", '{"n":1}')],
    ),
    "the name late": (
        [f('{"n":1}', index=0, call_id="a"), f(index=0, name="x")],
        [("x", '{"n":1}')],
    ),
    "another name later, for a known id": (
        [f(index=0, call_id="a", name="x"), f("{}", index=0, call_id="a", name="y")],
        [("x", "{}")],
    ),
    "whole in the first": ([f('{"n":1}', index=0, call_id="a", name="x")], [("x", '{"n":1}')]),
    "arguments as an object": ([f({"n": 1}, index=0, call_id="a", name="x")], [("x", '{"n":1}')]),
    "no arguments": ([f(index=0, call_id="a", name="x")], [("x", "")]),
    "an index that nobody has, and nothing else": (
        [f(index=0, call_id="a", name="x"), f("{}", index=7)],
        [("x", "{}")],
    ),
    "no name at all": ([f('{"n":1}', index=0, call_id="a")], [("", '{"n":1}')]),
    "nothing at all": ([f(), f(index=0)], []),
    "things that are no text": ([f(index=0, call_id=7, name=8)], []),
}


@pytest.mark.parametrize(("fragments", "calls"), CASES.values(), ids=CASES.keys())
def test_p3_fragments_come_to_their_calls(fragments: list[Json], calls: list[Json]) -> None:
    assert said(*fragments) == calls


def test_a_call_that_was_ended_takes_no_more() -> None:
    assembler = Assembler()
    events = [*assembler.feed(index=1, call_id="a", name="x", arguments="{}")]
    events += [*assembler.end_at(1), *assembler.end_at(1), *assembler.end_at(9)]
    events += [*assembler.feed(index=1, arguments="}"), *assembler.end()]
    assert [e.type.value for e in events] == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]


def test_whether_arguments_came_can_be_asked() -> None:
    assembler = Assembler()
    list(assembler.feed(index=0, call_id="a", name="x"))
    assert not assembler.has_text_at(0)
    list(assembler.feed(index=0, arguments="{"))
    assert assembler.has_text_at(0)
    assert not assembler.has_text_at(5)


OBJECTS = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=6), max_size=3)


@given(st.lists(OBJECTS, min_size=1, max_size=4), st.data())
def test_p3_any_cut_and_any_interleaving_gives_the_same_calls(
    given_args: list[Json], data: st.DataObject
) -> None:
    texts = [json.dumps(args) for args in given_args]
    streams = []
    for number, text in enumerate(texts):
        cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=4)))
        edges = [0, *cuts, len(text)]
        pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
        head = f(index=number, call_id=f"c{number}", name=f"t{number}")
        streams.append([head, *(f(piece, index=number) for piece in pieces)])
    merged = [streams[number].pop(0) for number in range(len(streams))]
    while any(streams):
        stream = data.draw(st.sampled_from([s for s in streams if s]))
        merged.append(stream.pop(0))
    assert said(*merged) == [(f"t{n}", text) for n, text in enumerate(texts)]
