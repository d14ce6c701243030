"""A human is asked: kept on the server, bound to call, name and arguments, used once. P10."""

import json
from typing import Any

import pytest
from tests.acceptance.house import House, house, object_of, still_house

from handspan import Policy, Principal
from handspan.testing import Refused, call

PAY = {"approval": "always", "parameters": object_of(amount={"type": "integer"})}


async def asked(home: House, definition: dict[str, Any] = PAY, **options: Any) -> tuple[Any, ...]:
    """A page whose call waits for a human, the run, and the request."""
    page = await home.page(tools={"pay": (definition, lambda args: f"paid {args}")}, **options)
    run = page.run("go")
    return page, run, await page.expect(type="approval.request")


PAYING = [call("pay", {"amount": 5})]


async def test_a_request_names_the_call_and_what_it_would_do() -> None:
    async with house(PAYING, "ok") as home:
        page, run, request = await asked(home)
        assert request["threadId"] == "t1"
        assert request["runId"] == run.id
        assert request["name"] == "pay"
        assert request["args"] == {"amount": 5}
        assert request["digest"]
        assert 0 < request["expiresMs"] <= 600_000
        assert page.calls == []
        states = [e["value"]["state"] for e in page.events if e["type"] == "CUSTOM"]
        assert states == ["waiting_approval"]
        assert await page.approve(request) == "applied"
        await run.finished
        assert len(page.calls) == 1
        assert home.codes() == [None]


@pytest.mark.parametrize(
    ("definition", "is_asked"),
    [
        ({"approval": "always"}, True),
        ({"consequential": True}, True),
        ({"consequential": True, "approval": "never"}, False),
        ({"approval": "never"}, False),
        ({}, False),
        ({"readOnly": True, "approval": "always"}, True),
    ],
)
async def test_who_is_asked_about(definition: dict[str, Any], is_asked: bool) -> None:
    async with house(PAYING, "ok") as home:
        page = await home.page(tools={"pay": (definition, lambda args: 1)})
        page.on_approval(lambda request: True)
        await page.run("go").finished
        requests = [f for f in page.frames if f["type"] == "approval.request"]
        assert bool(requests) is is_asked
        assert home.codes() == [None]


async def test_a_denied_call_does_not_run_and_the_model_is_told() -> None:
    async with house(PAYING, "ok") as home:
        page, run, request = await asked(home)
        assert await page.approve(request, False, reason="too expensive") == "applied"
        await run.finished
        assert page.calls == []
        assert home.codes() == ["denied"]
        assert home.results()[0]["metadata"]["handspan"]["outcome"] == "denied"
        assert json.loads(home.results()[0]["content"])["error"]["code"] == "denied"
        assert len(home.steps) == 2


async def test_a_request_that_nobody_answers_expires() -> None:
    async with still_house(PAYING, "ok", policy=Policy(approval_timeout=10.0)) as home:
        page = await home.world.page(tools={"pay": (PAY, lambda args: 1)})
        run = page.run("go")
        request = await page.expect(type="approval.request")
        assert request["expiresMs"] == 10_000
        await home.world.advance(9.0)
        assert home.results() == []
        await home.world.advance(2.0)
        await run.finished
        assert home.codes() == ["approval_expired"]
        assert await page.approve(request) == "late"


async def test_while_a_human_is_asked_the_clock_of_the_call_stands() -> None:
    """Behaviour 3: timeouts."""
    definition = {**PAY, "timeoutMs": 1_000}
    async with still_house(PAYING, "ok") as home:
        page = await home.world.page(tools={"pay": (definition, lambda args: 1)})
        run = page.run("go")
        request = await page.expect(type="approval.request")
        await home.world.advance(100.0)
        assert await page.approve(request) == "applied"
        await run.finished
        assert home.codes() == [None]


async def test_edited_arguments_are_carried_out_instead() -> None:
    async with house(PAYING, "ok") as home:
        page, run, request = await asked(home)
        assert await page.approve(request, args={"amount": 3}) == "applied"
        await run.finished
        assert [c.args for c in page.calls] == [{"amount": 3}]


async def test_edited_arguments_are_checked_again() -> None:
    """Behaviour 7."""
    async with house(PAYING, "ok") as home:
        page, run, request = await asked(home)
        await page.approve(request, args={"amount": "all of it"})
        await run.finished
        assert page.calls == []
        assert home.codes() == ["invalid_arguments"]


async def test_another_tab_of_the_principal_may_answer() -> None:
    async with house(PAYING, "ok") as home:
        page, run, request = await asked(home)
        other = await home.page(threads=("t1",))
        seen = await other.expect(type="approval.request")
        assert seen["digest"] == request["digest"]
        assert await other.approve(seen) == "applied"
        await run.finished
        assert len(page.calls) == 1
        assert other.calls == []


async def test_another_principal_cannot_answer_and_is_told_nothing() -> None:
    def whoever(token: str | None, request: Any) -> Principal | None:
        return Principal(token or "nobody")

    async with house(PAYING, "ok", authenticate=whoever) as home:
        page, run, request = await asked(home, token="ann")
        bob = await home.page(token="bob", threads=("t1",))
        with pytest.raises(Refused) as refused:
            await bob.approve(request)
        assert refused.value.code == "unknown_call"
        assert page.calls == []
        assert await page.approve(request, False) == "applied"
        await run.finished
        assert [f for f in bob.frames if f["type"] == "approval.request"] == []


async def test_a_call_is_decided_once() -> None:
    """C101: the first wins, the second gets a typed answer; one execution."""
    async with house(PAYING, "ok") as home:
        page, run, request = await asked(home)
        posts = [
            page.document.post(
                {
                    "type": "approval.answer",
                    "callId": request["callId"],
                    "digest": request["digest"],
                    "approved": approved,
                }
            )
            for approved in (True, True, False)
        ]
        await run.finished
        await page.until(lambda: all(post.done() for post in posts))
        assert [post.result()["status"] for post in posts] == ["applied", "duplicate", "late"]
        assert len(page.calls) == 1


async def test_of_several_answers_at_once_one_is_applied_and_the_call_runs_once() -> None:
    """C101, P2."""
    async with house(PAYING, "ok") as home:
        page, run, request = await asked(home)
        named = {"callId": request["callId"], "digest": request["digest"]}
        for n, approved in enumerate((False, True, True)):
            page.send({"type": "approval.answer", "id": f"x{n}", **named, "approved": approved})
        replies = [await page.expect(type="reply", id=f"x{n}") for n in range(3)]
        assert [r["result"]["status"] for r in replies] == ["applied", "late", "late"]
        await run.finished
        assert page.calls == []
        assert home.codes() == ["denied"]


async def test_an_answer_with_another_digest_changes_nothing() -> None:
    """P10: bound to call, name and arguments."""
    async with house(PAYING, "ok") as home:
        page, run, request = await asked(home)
        assert await page.approve({**request, "digest": "forged"}) == "late"
        assert page.calls == []
        assert await page.approve(request) == "applied"
        await run.finished


async def test_a_call_that_nobody_asked_about_is_unknown_to_an_answer() -> None:
    async with house([call("free")], "ok") as home:
        page = await home.page(tools={"free": None})
        run = page.run("go")
        held = await page.next_call()
        for call_id in (held.call_id, "c-none"):
            with pytest.raises(Refused) as refused:
                await page.approve({"callId": call_id, "digest": "x"})
            assert refused.value.code == "unknown_call"
        await held.start()
        await held.answer(1)
        await run.finished


async def test_a_definition_that_changed_is_asked_about_anew() -> None:
    """Behaviour 3: a changed definition closes the request."""
    async with house(PAYING, "ok") as home:
        page, run, request = await asked(home)
        page.tool("pay", {**PAY, "description": "pays twice"}, lambda args: "twice")
        again = await page.expect(type="approval.request")
        assert again["digest"] != request["digest"]
        assert await page.approve(request) == "late"
        assert page.calls == []
        assert await page.approve(again) == "applied"
        await run.finished
        assert [m["content"] for m in home.results()] == ["twice"]


async def test_remember_covers_this_definition_in_this_thread() -> None:
    async with house(PAYING, PAYING, "ok") as home:
        page, run, request = await asked(home)
        assert await page.approve(request, remember=True) == "applied"
        await run.finished
        assert len(page.calls) == 2
        elsewhere = page.run("go", thread_id="t2")
        second = await page.expect(type="approval.request")
        assert second["threadId"] == "t2"
        await page.abort(elsewhere.id)
        await elsewhere.finished
        page.tool("pay", {**PAY, "description": "another"}, lambda args: 1)
        third = page.run("go")
        assert (await page.expect(type="approval.request"))["threadId"] == "t1"
        await page.abort(third.id)
        await third.finished


async def test_a_stop_closes_the_request() -> None:
    """P5, P10: a verdict on a settled call is dropped."""
    async with house(PAYING, "ok") as home:
        page, run, request = await asked(home)
        assert await page.abort()
        assert (await run.finished)["reason"] == "aborted"
        assert home.codes() == ["aborted_before_start"]
        assert await page.approve(request) == "late"
        assert page.calls == []


async def test_a_tab_that_opens_the_thread_later_is_asked_too() -> None:
    """Protocol 2: every open approval.request of the thread is sent again."""
    async with house(PAYING, "ok") as home:
        page, run, request = await asked(home)
        late = await home.page(threads=("t1",))
        seen = await late.expect(type="approval.request")
        assert (seen["callId"], seen["digest"]) == (request["callId"], request["digest"])
        kinds = [f["type"] for f in late.frames]
        assert kinds.index("snapshot") < kinds.index("approval.request")
        await late.approve(seen)
        await run.finished
        del page


async def test_a_server_tool_may_ask_a_human() -> None:
    ran: list[int] = []

    def charge(amount: int) -> str:
        """Charges a card."""
        ran.append(amount)
        return "charged"

    async with house([call("charge", {"amount": 7})], "ok") as home:
        home.bridge.tool(approval="always")(charge)
        page = await home.page()
        run = page.run("go")
        request = await page.expect(type="approval.request")
        assert ran == []
        await page.approve(request)
        await run.finished
        assert ran == [7]


async def test_siblings_that_nobody_asks_about_do_not_wait_for_the_human() -> None:
    async with house([*PAYING, call("look")], "ok") as home:
        look = ({"readOnly": True}, lambda args: "seen")
        page = await home.page(tools={"pay": (PAY, lambda args: "paid"), "look": look})
        run = page.run("go")
        request = await page.expect(type="approval.request")
        await page.until(lambda: [c.state for c in page.calls if c.name == "look"] == ["done"])
        await page.approve(request)
        await run.finished
        assert [m["content"] for m in home.results()] == ["paid", "seen"]
