"""Behaviour 3, protocol 6: what becomes of a call before it reaches a handler. P1-P3, P12, P13."""

import json
from typing import Any

import pytest
from ag_ui.core import ToolCallChunkEvent
from tests.acceptance.house import (
    end_call,
    house,
    more_args,
    object_of,
    start_call,
    streamed,
)

from handspan import Policy
from handspan.testing import call

# ---- arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", ["", "  ", "\n\t", "null", " null ", None])
async def test_empty_arguments_mean_an_empty_object(raw: str | None) -> None:
    """C001, C002, P3."""
    step = streamed("c1", "ping", *([] if raw is None else [raw]))
    async with house(step, "ok") as home:
        page = await home.page(tools={"ping": lambda args: args})
        assert (await page.run("go").finished)["reason"] == "completed"
        assert [c.args for c in page.calls] == [{}]
        assert home.codes() == [None]


@pytest.mark.parametrize("raw", ["null", ""])
async def test_empty_arguments_of_a_tool_that_requires_some_are_an_error_to_the_model(
    raw: str,
) -> None:
    """C002."""
    async with house([call("t", raw)], "ok") as home:
        page = await home.page(tools={"t": ({"parameters": object_of(x={})}, lambda args: 1)})
        assert (await page.run("go").finished)["reason"] == "completed"
        assert page.calls == []
        assert home.codes() == ["invalid_arguments"]
        assert "x" in home.results()[0]["content"]
        assert len(home.steps) == 2


async def test_arguments_that_are_cut_off_are_told_to_the_model_which_repairs_them() -> None:
    """C003."""
    async with house([call("t", "{")], [call("t", '{"x":1}')], "ok") as home:
        page = await home.page(tools={"t": lambda args: "done"})
        await page.run("go").finished
        assert [c.args for c in page.calls] == [{"x": 1}]
        assert home.codes() == ["invalid_arguments", None]
        assert len(home.steps) == 3
        failure = json.loads(home.results()[0]["content"])["error"]
        assert failure["code"] == "invalid_arguments"
        assert "{" in failure["message"]


@pytest.mark.parametrize(
    "raw",
    [
        "[1]",
        '"x"',
        "5",
        "true",
        '"{\\"a\\":1}"',
        '{"a":NaN}',
        '{"a":Infinity}',
        '{"a":1}{"b":2}',
        '{"a":1} trailing',
        "{'a':1}",
        '{"a":01}',
        '{"a":1e999}',
        "{" * 300,
        '{"a":' * 200 + "1" + "}" * 200,
    ],
    ids=lambda raw: raw[:12],
)
async def test_arguments_that_are_no_json_object_never_reach_a_handler(raw: str) -> None:
    """C011, P3, P4."""
    async with house([call("t", raw)], "ok") as home:
        page = await home.page(tools={"t": lambda args: 1})
        assert (await page.run("go").finished)["reason"] == "completed"
        assert page.calls == []
        assert home.codes() == ["invalid_arguments"]


@pytest.mark.parametrize(
    "args", [{"n": 0}, {"on": False}, {"s": ""}, {"l": []}, {"o": {}}, {"z": None}]
)
async def test_values_that_are_falsy_pass_unchanged(args: dict[str, Any]) -> None:
    """C013."""
    async with house([call("t", args)], "ok") as home:
        page = await home.page(tools={"t": lambda args: args})
        await page.run("go").finished
        assert [c.args for c in page.calls] == [args]
        assert home.results()[0]["content"] == json.dumps(args, separators=(",", ":"))


async def test_a_double_encoded_value_is_an_error_that_names_its_place() -> None:
    """C010: no guessing; a string-typed field that looks like JSON stays a string."""
    schema = object_of(tags={"type": "array"}, note={"type": "string"})
    first = {"tags": '["a"]', "note": '["a"]'}
    second = {"tags": ["a"], "note": '["a"]'}
    async with house([call("t", first)], [call("t", second)], "ok") as home:
        page = await home.page(tools={"t": ({"parameters": schema}, lambda args: 1)})
        await page.run("go").finished
        assert [c.args for c in page.calls] == [second]
        assert home.codes() == ["invalid_arguments", None]
        assert "/tags" in home.results()[0]["content"]
        assert "/note" not in home.results()[0]["content"]


async def test_up_to_ten_errors_are_told_each_with_its_pointer() -> None:
    schema = object_of(**{f"f{n}": {"type": "integer"} for n in range(14)})
    args = {f"f{n}": "no" for n in range(14)}
    async with house([call("t", args)], "ok") as home:
        page = await home.page(tools={"t": ({"parameters": schema}, lambda args: 1)})
        await page.run("go").finished
        told = home.results()[0]["content"]
        assert sum(f"/f{n}" in told for n in range(14)) == 10


async def test_nothing_is_coerced() -> None:
    """P3, P11."""
    schema = object_of(n={"type": "integer"})
    async with house(
        [call("t", {"n": "1"}), call("t", {"n": 1.5}), call("t", {"n": True})], "ok"
    ) as home:
        page = await home.page(tools={"t": ({"parameters": schema}, lambda args: 1)})
        await page.run("go").finished
        assert page.calls == []
        assert home.codes() == ["invalid_arguments"] * 3


async def test_the_exact_text_of_the_model_is_beside_the_arguments() -> None:
    raw = '{ "big":123456789012345678901234567890, "x":1.50, "a":1, "a":2 }'
    async with house([call("t", raw)], "ok") as home:
        page = await home.page(tools={"t": lambda args: 1})
        await page.run("go").finished
        asked = page.calls[0]
        assert asked.raw_args == raw
        assert asked.args == {"big": 123456789012345678901234567890, "x": 1.5, "a": 2}
        message = next(m for m in home.history() if "toolCalls" in m)
        assert message["toolCalls"][0]["function"]["arguments"] == raw


# ---- deltas and ids --------------------------------------------------------------------------


async def test_interleaved_deltas_belong_to_the_call_they_name() -> None:
    """C006: and one for an unknown id changes nothing."""
    step = [
        start_call("c1", "t"),
        start_call("c2", "t"),
        more_args("c1", '{"a"'),
        more_args("c2", '{"b"'),
        more_args("zz", "junk"),
        more_args("c1", ":1}"),
        more_args("c2", ":2}"),
        end_call("c1"),
        end_call("c2"),
    ]
    async with house(step, "ok") as home:
        page = await home.page(tools={"t": lambda args: args})
        assert (await page.run("go").finished)["reason"] == "completed"
        assert [(c.call_id, c.args) for c in page.calls] == [("c1", {"a": 1}), ("c2", {"b": 2})]


async def test_a_name_repeated_in_every_delta_is_set_once() -> None:
    """C007."""
    step = [
        ToolCallChunkEvent(tool_call_id="c1", tool_call_name="search", delta=delta)
        for delta in ('{"q"', ":", "1}")
    ]
    async with house(step, "ok") as home:
        page = await home.page(tools={"search": lambda args: args})
        await page.run("go").finished
        assert [(c.name, c.args) for c in page.calls] == [("search", {"q": 1})]


async def test_a_start_repeated_while_its_call_is_open_is_ignored() -> None:
    """C007, behaviour 3 (Duplicates)."""
    step = [
        start_call("c1", "t"),
        more_args("c1", '{"a":'),
        start_call("c1", "t"),
        more_args("c1", "1}"),
        end_call("c1"),
    ]
    async with house(step, "ok") as home:
        page = await home.page(tools={"t": lambda args: args})
        await page.run("go").finished
        assert [c.args for c in page.calls] == [{"a": 1}]


async def test_a_delta_after_the_end_changes_nothing_and_is_sent_to_nobody() -> None:
    """C017, P6."""
    step = [*streamed("c1", "t", '{"a":1', "}"), more_args("c1", "}"), "text"]
    async with house(step, "ok") as home:
        page = await home.page(tools={"t": lambda args: args})
        await page.run("go").finished
        kinds = [e["type"] for e in page.events if e.get("toolCallId") == "c1"]
        assert kinds == [
            "TOOL_CALL_START",
            "TOOL_CALL_ARGS",
            "TOOL_CALL_ARGS",
            "TOOL_CALL_END",
            "TOOL_CALL_RESULT",
        ]
        assert page.calls[0].args == {"a": 1}


async def test_a_call_is_final_only_at_its_end() -> None:
    """P3: an argument text that is whole JSON early on is not dispatched early."""
    step = [start_call("c1", "t"), more_args("c1", "{}"), more_args("c1", " "), end_call("c1")]
    async with house(step, "ok") as home:
        page = await home.page(tools={"t": lambda args: args})
        await page.run("go").finished
        assert [c.raw_args for c in page.calls] == ["{} "]


async def test_empty_and_equal_ids_of_a_provider_become_distinct_ones() -> None:
    """C053, P1, P7."""
    step = [
        *streamed("", "t", '{"n":1}'),
        *streamed("", "t", '{"n":2}'),
        *streamed("get", "t", '{"n":3}'),
        *streamed("get", "t", '{"n":4}'),
        *streamed("not an id!", "t", '{"n":5}'),
    ]
    async with house(step, "ok") as home:
        page = await home.page(tools={"t": lambda args: args["n"]})
        await page.run("go").finished
        assert [c.args["n"] for c in page.calls] == [1, 2, 3, 4, 5]
        assert len({c.call_id for c in page.calls}) == 5
        assert [m["content"] for m in home.results()] == ["1", "2", "3", "4", "5"]
        by_id = {c.call_id: str(c.args["n"]) for c in page.calls}
        assert {m["toolCallId"]: m["content"] for m in home.results()} == by_id


async def test_an_id_used_before_in_the_thread_is_another_call_under_a_fresh_id() -> None:
    async with house(streamed("c1", "t", '{"n":1}'), streamed("c1", "t", '{"n":2}'), "ok") as home:
        page = await home.page(tools={"t": lambda args: args["n"]})
        await page.run("go").finished
        ids = [c.call_id for c in page.calls]
        assert ids[0] == "c1"
        assert ids[1] != "c1"
        assert [m["content"] for m in home.results()] == ["1", "2"]


# ---- order -----------------------------------------------------------------------------------

MODES: list[Any] = [
    ({"readOnly": True}, {}),
    ({"parallel": True}, {}),
    ({}, {"tool_execution": "parallel"}),
]


@pytest.mark.parametrize(("definition", "policy"), MODES)
async def test_parallel_calls_overlap_and_results_stand_in_call_order(
    definition: dict[str, Any], policy: dict[str, Any]
) -> None:
    """C035, C036, C039, C046: three dispatches, three results, one follow-up after the third."""
    step = [call("t", {"n": n}) for n in (1, 2, 3)]
    async with house(step, "ok", policy=Policy(**policy)) as home:
        page = await home.page(tools={"t": (definition, None)})
        run = page.run("go")
        calls = [await page.next_call() for _ in step]
        assert [c.args["n"] for c in calls] == [1, 2, 3]
        for asked in reversed(calls):
            assert len(home.steps) == 1
            if not definition.get("readOnly"):
                assert await asked.start() == "go"
            assert await asked.answer(asked.args["n"] * 10) == "applied"
        await run.finished
        assert len(home.steps) == 2
        roles = [m["role"] for m in home.history()]
        assert roles == ["user", "assistant", "tool", "tool", "tool", "assistant"]
        assert [m["content"] for m in home.results()] == ["10", "20", "30"]
        assert [r.value for r in home.steps[1].results] == [10, 20, 30]
        told = [e["toolCallId"] for e in run.events if e["type"] == "TOOL_CALL_RESULT"]
        assert told == [c.call_id for c in calls]
        settled = [
            e["value"]["callId"]
            for e in run.events
            if e["type"] == "CUSTOM" and e["value"].get("state") == "settled"
        ]
        assert settled == [c.call_id for c in reversed(calls)]


async def test_calls_that_change_the_page_run_one_after_another() -> None:
    """Behaviour 3 (Order): what they do to the page happens in the order the model wrote."""
    async with house([call("t", {"n": 1}), call("t", {"n": 2}), call("look")], "ok") as home:
        page = await home.page(tools={"t": None, "look": ({"readOnly": True}, None)})
        run = page.run("go")
        first = await page.next_call("t")
        await first.start()
        await page.ask("thread.list")
        assert [c.args.get("n") for c in page.calls if c.name == "t"] == [1]
        await first.answer("a")
        second = await page.next_call("t")
        await second.start()
        await second.answer("b")
        look = await page.next_call("look")
        await look.answer("c")
        await run.finished
        assert [m["content"] for m in home.results()] == ["a", "b", "c"]


async def test_equal_runs_give_equal_histories() -> None:
    """C036."""
    shapes = set()
    for order in ((0, 1), (1, 0)) * 3:
        async with house([call("t", {"n": 0}), call("t", {"n": 1})], "ok") as home:
            page = await home.page(tools={"t": ({"readOnly": True}, None)})
            run = page.run("go")
            calls = [await page.next_call(), await page.next_call()]
            for at in order:
                await calls[at].answer(at)
            await run.finished
            ids = [m["id"] for m in home.history()] + [c.call_id for c in calls]
            text = json.dumps(home.history())
            for n, name in enumerate(ids):
                text = text.replace(name, f"id{n}")
            shapes.add(text)
    assert len(shapes) == 1


async def test_the_life_of_a_call_is_told_as_it_happens() -> None:
    """Protocol 1: `handspan.call`."""
    async with house([call("t")], "ok") as home:
        page = await home.page(tools={"t": lambda args: 1})
        await page.run("go").finished
        states = [e["value"] for e in page.events if e["type"] == "CUSTOM"]
        assert [v["state"] for v in states] == ["dispatched", "started", "settled"]
        assert states[-1]["outcome"] == "ok"
        assert {v["callId"] for v in states} == {page.calls[0].call_id}
        result = next(e for e in page.events if e["type"] == "TOOL_CALL_RESULT")
        assert result["metadata"] == {"handspan": {"outcome": "ok"}}
        assert home.results()[0]["metadata"] == {"handspan": {"outcome": "ok"}}


async def test_a_tool_call_frame_has_what_a_handler_needs() -> None:
    async with house([call("t", {"a": 1})], "ok") as home:
        page = await home.page(tools={"t": ({"timeoutMs": 5_000}, lambda args: 1)})
        run = page.run("go")
        await run.finished
        frame = page.calls[0].frame
        assert frame["attempt"] == 1
        assert frame["threadId"] == "t1"
        assert frame["runId"] == run.id
        assert frame["depth"] == 0
        assert frame["name"] == "t"
        assert frame["args"] == {"a": 1}
        assert json.loads(frame["rawArgs"]) == {"a": 1}
        assert frame["timeoutMs"] == 5_000
        assert isinstance(frame["revision"], int)
        assert "toolName" not in frame


async def test_a_tool_call_never_overtakes_earlier_events_of_its_run() -> None:
    """Protocol 4."""
    text = "x" * 300_000
    async with house([text, call("t")], "ok") as home:
        page = await home.page(tools={"t": lambda args: 1})
        await page.run("go").finished
        at = next(n for n, f in enumerate(page.frames) if f["type"] == "tool.call")
        before = [e for f in page.frames[:at] if f["type"] == "events" for e in f["events"]]
        assert sum(len(e.get("delta", "")) for e in before if "TEXT" in e["type"]) == len(text)
        assert any(e["type"] == "TOOL_CALL_END" for e in before)


# ---- limits ----------------------------------------------------------------------------------


async def test_calls_over_the_limit_of_a_step_get_an_error_and_there_is_one_follow_up() -> None:
    """C114, P12."""
    step = [call("t", {"n": n}) for n in range(500)]
    async with house(step, "ok", policy=Policy(calls_per_step=10)) as home:
        page = await home.page(tools={"t": ({"readOnly": True}, lambda args: args["n"])})
        await page.run("go").finished
        assert [c.args["n"] for c in page.calls] == list(range(10))
        assert len(home.results()) == 500
        assert home.codes() == [None] * 10 + ["limit"] * 490
        assert len(home.steps) == 2


async def test_the_same_tool_may_be_called_many_times_in_a_step() -> None:
    step = [call("t", {"n": n}) for n in range(64)]
    async with house(step, "ok") as home:
        page = await home.page(tools={"t": lambda args: args["n"]})
        await page.run("go").finished
        assert [m["content"] for m in home.results()] == [str(n) for n in range(64)]
        assert len(home.steps) == 2


# ---- names -----------------------------------------------------------------------------------


async def test_an_unknown_name_is_told_to_the_model_with_the_known_ones() -> None:
    """C115, P13."""
    async with house([call("known"), call("invented"), call("known")], "ok") as home:
        page = await home.page(tools={"known": lambda args: 1, "other": lambda args: 1})
        assert (await page.run("go").finished)["reason"] == "completed"
        assert home.codes() == [None, "unknown_tool", None]
        told = home.results()[1]["content"]
        for name in ("invented", "known", "other"):
            assert name in told
        assert len(page.calls) == 2


async def test_the_wildcard_gets_what_has_no_exact_handler_and_is_never_offered() -> None:
    """C117, P13."""
    async with house([call("a", {"x": 1}), call("zzz", {"k": 1})], "ok") as home:
        page = await home.page(tools={"a": lambda args: "exact", "*": lambda args: args})
        await page.run("go").finished
        assert [t.name for t in home.steps[0].tools] == ["a"]
        assert home.results()[0]["content"] == "exact"
        caught = page.calls[1]
        assert caught.name == "*"
        assert caught.tool_name == "zzz"
        assert caught.args == {"toolName": "zzz", "args": {"k": 1}}
        assert json.loads(home.results()[1]["content"]) == {"toolName": "zzz", "args": {"k": 1}}


async def test_the_wildcard_lives_like_a_named_tool() -> None:
    """C118: pending, answered by id, cancelled."""
    async with house([call("one"), call("two")], "ok") as home:
        page = await home.page(tools={"*": ({"parallel": True}, None)})
        run = page.run("go")
        first, second = await page.next_call(), await page.next_call()
        for asked in (second, first):
            await asked.start()
            await asked.answer(f"{asked.tool_name} done")
        await run.finished
        assert [m["content"] for m in home.results()] == ["one done", "two done"]
        again = page.run("go")
        third = await page.next_call()
        await page.abort()
        await again.finished
        assert third.reason == "aborted"


async def test_a_server_side_wildcard_comes_after_the_page_s() -> None:
    """Protocol 6."""

    def anything(toolName: str, args: dict[str, Any]) -> str:  # noqa: N803 - the protocol's name
        return f"server {toolName} {args['n']}"

    step = [call("zzz", {"n": 1})]
    async with house(step, "ok") as home:
        home.bridge.tool(name="*", description="anything")(anything)
        bare = await home.page(threads=("a",))
        await bare.run("go").finished
        assert [m["content"] for m in home.results("a")] == ["server zzz 1"]
        page = await home.page(threads=("b",), tools={"*": lambda args: "page"})
        await page.run("go").finished
        assert [m["content"] for m in home.results("b")] == ["page"]


async def test_a_page_never_takes_the_place_of_a_server_tool() -> None:
    """C119, P13."""

    def pay(amount: int) -> str:
        """Pays."""
        return f"paid {amount}"

    async with house([call("pay", {"amount": 3})], "ok", tools=[pay]) as home:
        page = await home.page(tools={"pay": lambda args: "stolen"})
        assert [r["code"] for r in page.welcome["tools"]["rejected"]] == ["name_taken"]
        await page.run("go").finished
        assert [m["content"] for m in home.results()] == ["paid 3"]
        assert page.calls == []


@pytest.mark.parametrize("name", ["constructor", "__proto__", "toString", "hasOwnProperty"])
async def test_names_of_prototypes_are_ordinary_names(name: str) -> None:
    """Behaviour 7, P13."""
    async with house([call(name, {"__proto__": 1})], "ok") as home:
        page = await home.page(tools={"other": lambda args: 1})
        await page.run("go").finished
        assert home.codes() == ["unknown_tool"]
        page.tool(name, {}, lambda args: args)
        await page.run("go").finished
        assert page.calls[0].args == {"__proto__": 1}


async def test_a_tool_that_is_not_available_is_not_offered_and_a_call_to_it_is_refused() -> None:
    """Protocol 5."""
    async with house([call("t")], "ok") as home:
        page = await home.page(tools={"t": ({"available": False}, lambda args: 1)})
        await page.run("go").finished
        assert home.steps[0].tools == []
        assert page.calls == []
        assert home.codes()[0] in ("unavailable", "unknown_tool")


async def test_a_tool_of_one_agent_is_not_seen_by_another() -> None:
    """Protocol 5: agent scope."""
    seen: dict[str, list[str]] = {}

    async def look(run: Any) -> Any:
        seen[run.agent] = [t.name for t in run.tools]
        if run.depth == 0:
            yield run.call("refund", {})

    async with house(agent=look, agents={"billing": look}) as home:
        page = await home.page(tools={"refund": ({"agent": "billing"}, lambda args: 1)})
        await page.run("go").finished
        await page.run("go", agent="billing").finished
        assert seen == {"default": [], "billing": ["refund"]}
        assert home.codes()[0] in ("unknown_tool", "unavailable")
        assert home.codes()[1] is None


@pytest.mark.parametrize("parameters", [None, {}, {"type": "object"}, ...])
async def test_no_parameters_mean_an_object_without_required_properties(parameters: Any) -> None:
    """P11, protocol 5."""
    definition = {} if parameters is ... else {"parameters": parameters}
    async with house([call("t", {"free": True})], "ok") as home:
        page = await home.page(tools={"t": (definition, lambda args: args)})
        await page.run("go").finished
        assert page.calls[0].args == {"free": True}
        assert home.steps[0].tools[0].parameters["type"] == "object"
        assert not home.steps[0].tools[0].parameters.get("required")


async def test_what_a_registered_schema_means_is_what_the_agent_sees_and_cannot_change() -> None:
    """P11: the registry is never changed by a reader."""
    schema = object_of(n={"type": "integer", "enum": [1, 2]})
    reads: list[Any] = []

    async def agent(run: Any) -> Any:
        reads.append(json.loads(json.dumps(run.tools[0].parameters)))
        run.tools[0].parameters["properties"].clear()
        if run.depth == 0:
            yield run.call("t", {"n": 3})

    async with house(agent=agent) as home:
        page = await home.page(tools={"t": ({"parameters": schema}, lambda args: 1)})
        await page.run("go").finished
        assert reads == [schema, schema]
        assert home.codes() == ["invalid_arguments"]
