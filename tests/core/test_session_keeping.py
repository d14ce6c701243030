"""What of a session is written, and that the next process has it as it was (P16)."""

import pytest
from tests.core.builders import COMPILE, World, spec, takes, tool
from tests.core.kept import KeptWorld, revived

from handspan.core import session_keeping as room
from handspan.core.entries import Drop, Entry
from handspan.core.parties import ANONYMOUS, Principal
from handspan.core.policy import Policy
from handspan_protocol import frames as f
from handspan_protocol.codec import encode, parse_json

ITEM = f.ContextItem(name="page", description="which", value={"n": 1})
OTHER = f.ContextItem(name="other", description="", value=None)


def written(world, tab):
    """(part, name) of all that was written of the session, a Drop with a minus before it."""
    changes = [c for page in world.written for c in page if c.scope == tab.id]
    return [("-" if isinstance(c, Drop) else "") + f"{c.part} {c.name}".strip() for c in changes]


@pytest.fixture
def world():
    return KeptWorld(Policy(replies=3), server=(spec("srv"),))


def test_p16_a_session_is_the_same_in_the_next_process(world):
    tab = world.tab("a", tools=[tool("t", title="T"), tool("u")], context=(ITEM,))
    tab.tools(tool("t"))
    command = tab.command(f.ThreadOpen, thread_id="t2")
    refused = tab.command(f.RunStart, thread_id="t1", message="x", agent="nobody")
    tab.drop()
    before, after = tab.session, revived(world).sessions[tab.id]
    assert after.view() == before.view()
    assert after.tools.current["t"].digest == before.tools.current["t"].digest
    assert after.tools.revision == before.tools.revision == 2
    assert after.context.items == before.context.items == (ITEM,)
    assert after.knows(tab.claim.secret)
    assert not after.knows("another")
    assert (after.principal, after.origin) == (before.principal, before.origin)
    for name in (command, refused):
        key = (tab.document, name)
        assert after.replies.image(key) == before.replies.image(key) is not None


def test_p2_a_command_sent_again_to_the_next_process_gets_the_reply_it_had(world):
    tab = world.tab("a")
    frame = f.StateUpdate(id="7", thread_id="t1", state={"n": 1})
    tab.frame(frame)
    after = revived(world).sessions[tab.id]
    assert after.replies.begin(tab.document, frame) == tab.replies["7"]


def test_a_session_that_was_just_restored_has_nothing_to_write(world):
    tab = world.tab("a", tools=[tool("t")], context=(ITEM,))
    tab.open("t2")
    assert revived(world).sessions[tab.id].changes() == []


def test_only_what_has_changed_is_written(world):
    tab = world.tab("a", tools=[tool("t")], context=(ITEM,))
    assert written(world, tab) == ["self", "tools", "context"]
    tab.tools(tool("t"))
    tab.notice(f.Visibility(visible=False))
    assert len(written(world, tab)) == 3
    tab.ask(f.ContextUpdate, add=(OTHER,))
    tab.tools(tool("u"))
    assert written(world, tab)[3:] == ["context", "tools"]
    tab.back()
    assert written(world, tab)[5:] == ["self"]


def test_p2_commands_are_written_when_they_are_taken_and_when_they_are_answered(world):
    tab = world.tab("a")
    name = tab.command(f.ThreadOpen, thread_id="t2")
    reply = f"reply {tab.document} {name}"
    assert written(world, tab)[1:] == ["self", reply], "it has another thread open, and says so"
    tab.command(f.ThreadList)
    assert written(world, tab)[3:] == []


def test_p12_a_reply_that_has_left_is_dropped(world):
    tab = world.tab("a")
    names = [tab.command(f.ThreadOpen, thread_id=f"t{n}") for n in range(5)]
    assert f"-reply {tab.document} {names[0]}" in written(world, tab)
    kept = [name for part, name in world.shelf.sessions[tab.id] if part == "reply"]
    assert len(kept) == 3


def test_p9_no_secret_is_written(world):
    tab = world.tab("a")
    body = b"".join(world.shelf.sessions[tab.id].values())
    assert tab.claim.secret.encode() not in body


def test_a_session_that_is_over_is_kept_no_longer(world):
    tab = world.tab("a", tools=[tool("t")])
    tab.bye()
    assert tab.id not in world.shelf.sessions


def test_attributes_that_json_cannot_hold_come_anew_with_the_page():
    world = KeptWorld()
    session = world.session(Principal("ann", when=object(), n=1))
    session.document = "d-1"
    (put,) = session.changes()
    assert parse_json(put.body)["principal"] == ["ann", "{}"]
    assert session.changes() == []


def nested(depth):
    """Lists in lists."""
    value = 0
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [1, 127, 250])
def test_p16_attributes_that_json_can_hold_are_kept(depth):
    session = KeptWorld().session(Principal("ann", n=nested(depth)))
    session.document = "d-1"
    (put,) = session.changes()
    kept = Entry(put.part, put.name, put.body)
    principal, origin = room.owner_of([Entry("tools", "", b"[0,[]]"), kept])
    assert (principal.id, principal.attributes, origin) == ("ann", {"n": nested(depth)}, None)


def test_a_session_that_never_was_welcomed_has_no_owner():
    assert room.owner_of([]) is None
    assert room.owner_of([Entry("reply", "d 1", b"{}")]) is None


def test_a_tool_that_is_none_by_the_rules_of_today_is_left_out():
    session = World().session(ANONYMOUS)
    body = b'[3,[{"name":"no name","description":"d"},{"name":"t","description":"d"}]]'
    room.load(session, [Entry("tools", "", body), Entry("later", "", b"no JSON")], COMPILE, {})
    assert (list(session.tools.current), session.tools.revision) == (["t"], 3)


def test_p12_tools_that_many_pages_have_are_compiled_once():
    compiled = []

    def compile_schema(schema):
        compiled.append(schema)
        return COMPILE(schema)

    body = encode([1, [tool("t", parameters=takes("x", x="string"))]])
    known = {}
    one, other = World().session(ANONYMOUS), World().session(ANONYMOUS)
    room.load(one, [Entry("tools", "", body)], compile_schema, known)
    times = len(compiled)
    room.load(other, [Entry("tools", "", body)], compile_schema, known)
    assert times == len(compiled) > 0
    assert other.tools.current == one.tools.current
    other.tools.replace([])
    assert list(one.tools.current) == ["t"], "each session has a set of its own"


def test_what_nobody_keeps_has_no_changes():
    assert World().session(ANONYMOUS).changes() == []
