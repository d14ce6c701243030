"""What an application's own hooks do about it. Cases C010, C030; P3, P11."""

import json
from typing import Any

from tests.acceptance.house import house, object_of

from handspan.testing import call

TEXTS = {"type": "array", "items": {"type": "string"}}


async def test_a_hook_repairs_what_was_encoded_twice_and_a_text_stays_a_text() -> None:
    """C010: repaired where the schema asks for a list; history keeps what the model wrote."""
    written = {"tags": '["a"]', "note": '["a"]'}
    async with house([call("t", written)], "ok") as home:

        @home.bridge.hook("repair_arguments")
        async def read_once_more(bad: Any, next: Any) -> Any:
            args = json.loads(bad.raw)
            for error in bad.errors:
                args[error.pointer[1:]] = json.loads(args[error.pointer[1:]])
            return args

        schema = {"parameters": object_of(tags=TEXTS, note={"type": "string"})}
        page = await home.page(tools={"t": (schema, lambda args: 1)})
        assert (await page.run("go").finished)["reason"] == "completed"
        assert page.calls[0].args == {"tags": ["a"], "note": '["a"]'}
        assert json.loads(page.calls[0].raw_args) == written
        assert home.codes() == [None]


async def test_a_repair_that_does_not_validate_is_the_error_it_was() -> None:
    """C010: no guessing on anybody's behalf."""
    async with house([call("t", {"tags": "[1"})], "ok") as home:

        @home.bridge.hook("repair_arguments")
        async def guess(bad: Any, next: Any) -> Any:
            return {"tags": [1]}

        page = await home.page(tools={"t": ({"parameters": object_of(tags=TEXTS)}, None)})
        assert (await page.run("go").finished)["reason"] == "completed"
        assert page.calls == []
        assert home.codes() == ["invalid_arguments"]


async def test_what_a_hook_does_to_its_list_of_tools_is_for_that_step_only() -> None:
    """C030: the suffix does not grow, and the registry keeps what was registered."""
    seen: list[Any] = []

    def step(run: Any) -> Any:
        seen.append([tool.description for tool in run.tools])
        return [call("t")] if run.depth < 2 else ["ok"]

    async with house(step, step, step) as home:

        @home.bridge.hook("before_step")
        async def shout(step: Any, next: Any) -> Any:
            for tool in step.tools:
                object.__setattr__(tool, "description", tool.description + "!")
                tool.parameters["properties"]["evil"] = {}
            return await next(step)

        page = await home.page(tools={"t": ({"description": "says t"}, lambda args: 1)})
        await page.run("go").finished
        assert seen == [["says t!"]] * 3
        registered = home.bridge._driver.hub.sessions[home.bridge.sessions[0].id].tools.current["t"]
        assert registered.tool.description == "says t"
        assert "evil" not in str(registered.tool.parameters)
