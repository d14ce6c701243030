"""Whatever a handler returns or throws, and whatever is registered (P4, P14, C132)."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.browser.patience import RECORD, within
from tests.browser.stage import Stage, counts, shown

from handspan import Run
from handspan.testing import ScriptedAgent, call

pytestmark = pytest.mark.browser

Make = Callable[..., Stage]

RUN = "(text) => bridge.run(text).finished.catch(({ code }) => ({ code }))"

MORE = """() => Object.assign(odd, {
  no_date: () => new Date(NaN),
  pairs: () => new Map([[1, "one"]]),
  nested: () => ({ when: new Date(0), many: new Set([1n]), by: new Map([["k", undefined]]) }),
  bytes: () => new Uint8Array([1, 2]),
  getter: () => ({ get bad() { throw new Error("no"); }, good: 1 }),
  to_json: () => ({ toJSON() { throw new Error("no"); } }),
  revoked: () => { const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return { proxy }; },
  deep: () => { let all = []; for (let n = 0; n < 10_000; n++) all = [all]; return all; },
  huge: () => "x".repeat(2 ** 21),
  half: () => "\\ud800!",
  window: () => ({ document }),
  false: () => false,
  zero: () => 0,
  empty: () => "",
  null: () => null,
  throws_null: () => { throw null; },
  throws_symbol: () => { throw Symbol("s"); },
  throws_object: () => { throw { get message() { throw new Error("no"); } }; },
  throws_bare: () => { throw Object.create(null); },
  throws_nameless: () => { throw new Error(""); },
  throws_circular: () => { const e = new Error("round"); e.data = { e }; throw e; },
})"""

CONVERTED = {
    "undefined": None,
    "function": None,
    "symbol": None,
    "nan": None,
    "no_date": None,
    "date": "1970-01-01T00:00:00.000Z",
    "map": {"a": 1},
    "pairs": [[1, "one"]],
    "set": [1, 2],
    "bigint": "12345678901234567890",
    "bytes": [1, 2],
    "circular": {"self": "[circular]"},
    "element": "<ul#list>",
    "error": {"name": "Error", "message": "an error as a value"},
    "members": {"b": [None, None]},
    "nested": {"when": "1970-01-01T00:00:00.000Z", "many": ["1"], "by": {}},
    "getter": {"bad": "[error]", "good": 1},
    "to_json": "[error]",
    "half": "\ufffd!",
    "window": {"document": "<#document>"},
    "false": False,
    "zero": 0,
    "empty": "",
    "null": None,
}
"""The table of client/README.md."""


def test_p4_c132_every_value_comes_as_documented_in_exactly_one_result(stage: Make) -> None:
    async def agent(run: Run) -> AsyncIterator[Any]:
        if run.depth == 0:
            for kind in kinds:
                yield run.call("odd", {"kind": kind})

    here = stage(agent)
    context = here.page(more="&bare").context
    context.add_init_script(RECORD)
    page = here.open(context)
    page.evaluate(MORE)
    kinds: list[str] = page.evaluate("() => Object.keys(odd)")
    assert within(page, "the run with odd values", RUN, "go")["reason"] == "completed"
    assert counts(page) == {"odd": len(kinds)}
    sent = [frame for frame in page.evaluate("() => sent") if frame["type"] == "tool.result"]
    assert set(Counter(frame["callId"] for frame in sent).values()) == {1}
    frames = dict(zip(kinds, sent, strict=True))
    assert {kind: frames[kind].get("result") for kind in CONVERTED} == CONVERTED
    for kind in kinds:
        present = [key for key in ("result", "content", "error") if key in frames[kind]]
        assert len(present) == 1, f"{kind}: {frames[kind]}"
    failed = {kind for kind in kinds if "error" in frames[kind]}
    assert failed == {k for k in kinds if k.startswith("throws_")} | {"rejects", "huge"}
    for kind in failed:
        assert frames[kind]["error"]["message"], f"{kind}: an empty message"
    told = [m for m in shown(page) if m["role"] == "tool"]
    codes = {
        kind: m["metadata"]["handspan"].get("code") for kind, m in zip(kinds, told, strict=True)
    }
    expected = dict.fromkeys(failed, "handler_error") | {"huge": "result_too_large"}
    assert {kind: code for kind, code in codes.items() if code} == expected
    assert "[too deep]" in json.dumps(frames["deep"]["result"])
    assert page.evaluate("() => errors") == []
    assert shown(page) == here.history()


def test_p14_each_bad_registration_has_its_code_and_the_good_ones_stand(stage: Make) -> None:
    agent = ScriptedAgent([[call("good")], "ok"])
    here = stage(agent)

    async def taken() -> str:
        "On the server."
        return ""

    here.bridge.add_tool(taken)
    page = here.page()
    page.evaluate(
        """() => {
          const bad = (name, more) => bridge.tool(name, { description: "x", ...more }, () => 1);
          bad("bad name");
          bad("toString\\n");
          bad("taken");
          bad("wordy", { description: "x".repeat(5000) });
          bad("strange", { parameters: { type: "strng" } });
          const properties = { a: { $ref: "http://x.test/s" } };
          bad("remote", { parameters: { type: "object", properties } });
          bad("large", { parameters: { type: "object", description: "x".repeat(70_000) } });
          bad("constructor");
          bad("good", {}, () => "fine");
        }"""
    )
    assert within(page, "a run beside bad tools", RUN, "go")["reason"] == "completed"
    told = {error["name"]: error["code"] for error in page.evaluate("() => errors")}
    assert told == {
        "bad name": "bad_name",
        "toString\n": "bad_name",
        "taken": "name_taken",
        "wordy": "bad_description",
        "strange": "bad_schema",
        "remote": "schema_remote_ref",
        "large": "schema_too_large",
    }
    assert {tool.name for tool in agent.seen[0].tools} == {
        *("add", "title", "slow", "odd", "taken", "constructor", "good")
    }
    assert [m["content"] for m in shown(page) if m["role"] == "tool"] == ["1"]
