"""What pages and humans do in the machine of `test_machine`: answers, troubles, travels."""

from typing import Any

from hypothesis import strategies as st
from tests.core.builders import World
from tests.core.machine_parts import (
    WAITS,
    at,
    does,
    made,
    tabs,
    threads,
    toolsets,
)

from handspan.core import inputs as i
from handspan_protocol import frames as f


class Pages:
    """Actions of pages, of the humans before them, and of time."""

    world: World
    tabs: list[Any]

    def there(self, tab):
        return self.tabs[tab].connection is not None

    def offered(self, which):
        """Any call that any page was ever given."""
        calls = [call for tab in self.tabs for call in tab.calls]
        return calls[which % len(calls)] if calls else None

    def own(self, tab, which):
        """A call that this page knows as unsettled."""
        calls = [
            c for c in self.tabs[tab].calls if (c.call_id, c.attempt) in self.tabs[tab].journal
        ]
        return calls[which % len(calls)] if calls else None

    @does(10, "out", tab=tabs, which=at, answers=st.booleans())
    def page_works(self, tab, which, answers):
        call = self.own(tab, which)
        if call is None or not self.there(tab):
            return
        if answers:
            self.tabs[tab].result(call, {"n": which % 2})
        else:
            self.tabs[tab].started(call)

    @does(
        4,
        "offered",
        tab=tabs,
        which=at,
        attempt=st.integers(1, 3),
        kind=at,
        value=st.integers(0, 1),
    )
    def anybody_answers_anything(self, tab, which, attempt, kind, value):
        call = self.offered(which)
        if call is None or not self.there(tab):
            return
        match kind % 3:
            case 0:
                self.tabs[tab].started(call, attempt)
            case 1:
                self.tabs[tab].result(call, {"n": value}, attempt=attempt)
            case 2:
                self.tabs[tab].error(call, attempt=attempt)

    @does(2, "offered", tab=tabs, which=at)
    def page_tells_progress(self, tab, which):
        call = self.offered(which)
        if call is not None and self.there(tab):
            self.tabs[tab].progress(call, which)

    @does(
        8,
        "asked",
        tab=tabs,
        which=at,
        approved=st.booleans(),
        right=st.sampled_from((True, True, True, False)),
        args=st.sampled_from((None, None, {"x": 2}, {"x": "2"})),
        remember=st.booleans(),
    )
    def human_answers(self, tab, which, approved, right, args, remember):
        questions = [question for one in self.tabs for question in one.questions]
        if questions and self.there(tab):
            open_ones = [one for one in questions if self.is_open(one)] or questions
            question = (questions if which > 40 else open_ones)[which % len(open_ones)]
            digest = question.digest if right else "another"
            more = {"args": args, "remember": remember, "digest": digest}
            self.tabs[tab].approve(question, approved, **more)

    def is_open(self, question):
        known = self.world.threads.get(self.world.key(question.thread_id))
        call = known.desk.open_calls.get(question.call_id) if known is not None else None
        return call is not None and call.approval is not None

    @does(2, "page", tab=tabs)
    def socket_is_lost(self, tab):
        if self.there(tab):
            self.tabs[tab].drop()

    @does(4, None, tab=tabs, honest=st.booleans(), which=at)
    def page_comes_back(self, tab, honest, which):
        page = self.tabs[tab]
        if not honest and page.journal:
            lost = sorted(page.journal)[which % len(page.journal)]
            del page.journal[lost]
        page.back()

    @does(2, None, tab=tabs, done=st.booleans(), tools=st.none() | toolsets)
    def page_is_loaded_anew(self, tab, done, tools):
        page = self.tabs[tab]
        kept = [
            f.JournalEntry(call_id=call_id, attempt=attempt, state="done")
            for call_id, attempt in page.journal
            if done
        ]
        page.reload(journal=kept, tools=None if tools is None else made(tools))

    @does(3, "page", tab=tabs, chosen=toolsets)
    def tools_change(self, tab, chosen):
        if self.there(tab):
            self.tabs[tab].tools(*made(chosen))

    @does(3, "page", tab=tabs, thread=threads, closes=st.booleans())
    def page_opens_or_closes_a_thread(self, tab, thread, closes):
        if self.there(tab):
            (self.tabs[tab].close if closes else self.tabs[tab].open)(thread)

    @does(1, "page", tab=tabs, chosen=toolsets)
    def page_says_bye_and_another_comes(self, tab, chosen):
        if self.there(tab):
            page = self.tabs[tab]
            page.bye()
            self.world.tabs.remove(page)
            self.tabs[tab] = self.world.tab(page.name + "x", threads=("t1",), tools=made(chosen))

    @does(1, "page", tab=tabs, visible=st.booleans())
    def page_is_hidden_or_seen(self, tab, visible):
        if self.there(tab):
            self.tabs[tab].notice(f.Visibility(visible=visible))

    @does(1, "page", tab=tabs, thread=threads, good=st.booleans())
    def page_changes_the_state(self, tab, thread, good):
        path = "/s" if good else "/not/there"
        if self.there(tab):
            patch = ({"op": "add", "path": path, "value": 1},)
            self.tabs[tab].ask(f.StateUpdate, thread_id=thread, patch=patch)

    @does(1, "page", tab=tabs, thread=threads, sure=at)
    def thread_is_deleted(self, tab, thread, sure):
        if self.there(tab) and sure == 0:
            self.tabs[tab].ask(f.ThreadDelete, thread_id=thread)
            key = self.world.key(thread)
            assert not self.world.threads.get(key) or self.world.threads[key].run is None

    @does(1, "page", tab=tabs, value=st.integers(0, 9), large=st.booleans())
    def context_changes(self, tab, value, large):
        item = f.ContextItem(name="c", value="x" * 2_000 if large else value)
        if self.there(tab):
            self.tabs[tab].ask(f.ContextUpdate, set=(item,))

    @does(4, None, seconds=st.sampled_from(WAITS))
    def time_passes(self, seconds):
        self.world.wait(seconds)

    @does(9, "live", thread=threads)
    def everything_is_answered(self, thread):
        """By pages, humans, server tools and hooks, so that a run comes to its next depth."""
        for _ in range(6):
            if not self.live(thread):
                break
            self.let_go_on(self.world.key(thread))
            self.server_tools_return(thread)
            for page in self.tabs:
                if page.connection is not None:
                    self.page_answers_all(page, thread)

    def page_answers_all(self, page, thread):
        for question in page.questions:
            if question.thread_id == thread and self.is_open(question):
                page.approve(question)
        for call in page.calls:
            if call.thread_id == thread and (call.call_id, call.attempt) in page.journal:
                page.result(call, "done")

    def server_tools_return(self, thread):
        key = self.world.key(thread)
        known = self.world.threads.get(key)
        for call in list(known.desk.open_calls.values()) if known is not None else ():
            if call.out and call.holder is None:
                self.world.tell(key, i.ToolReturned(call.id, i.Answer(value="done")))

    @does(
        8,
        "out",
        tab=tabs,
        which=at,
        begins=st.booleans(),
        trouble=st.sampled_from(("lost", "kept", "anew", "away", "bye", "closed", "changed")),
    )
    def page_at_work_gets_into_trouble(self, tab, which, begins, trouble):
        """A call is out, perhaps started, and then something happens to its page."""
        page, call = self.tabs[tab], self.own(tab, which)
        if call is None or not self.there(tab):
            return
        if begins:
            page.started(call)
        match trouble:
            case "lost":
                page.journal.pop((call.call_id, call.attempt), None)
                page.back()
            case "kept":
                page.drop()
                page.back()
            case "anew":
                told = f.JournalEntry(call_id=call.call_id, attempt=call.attempt, state="started")
                page.reload(journal=[told][which % 2 :])
            case "away":
                page.drop()
                self.world.wait(31.0)
            case "bye":
                self.page_says_bye_and_another_comes(tab, [("plain", "v1"), ("look", "v1")])
            case "closed":
                page.close(call.thread_id)
            case "changed":
                page.tools(*made([("picky", "v2"), ("*", "v2")]))
