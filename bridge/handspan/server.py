"""The Bridge: what an application makes, registers its agents and tools with, and serves.

Owns the public face and the wiring: one `Driver` for each loop it is used on, one `Greeter`, one
listening port for each `serve`. Every rule is in the core, every socket in the shell.
"""

import asyncio
import ssl as tls
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from handspan.core import inputs as i
from handspan.core.arguments import SchemaRefusal, ToolSpec
from handspan.core.parties import ANONYMOUS, Asker, Principal, ThreadKey
from handspan.core.policy import Policy
from handspan.core.toolset import specify
from handspan.ports import Agent, Authenticator, Authorizer, Clock, Store, ToolSource
from handspan.schema import SchemaRoom
from handspan.shell.answers import user_message
from handspan.shell.clock import LoopClock
from handspan.shell.hooks import Hooks
from handspan.shell.ids import Ids, RandomIds
from handspan.shell.observers import Observer
from handspan.shell.origin import is_loopback
from handspan.shell.sources import Sources
from handspan.shell.steps import is_async
from handspan.shell.tools import ServerTool, server_tool
from handspan.shell.values import CallResult, Failure, RunResult
from handspan.stores import store_of
from handspan_protocol.codec import encode, page_frame
from handspan_protocol.errors import CommandCode, PeerError, UsageError
from handspan_protocol.ids import RunId, ThreadId, is_id

if TYPE_CHECKING:
    from handspan.shell.driver import Driver
    from handspan.shell.greeter import Greeter

Json = Any
_DRAINING = Failure(CommandCode.DRAINING.value, "the server is going down")
F = TypeVar("F", bound=Callable[..., Any])


class Address(str):
    """Where a bridge listens, as a URL of the page ("http://127.0.0.1:8765")."""

    host: str
    port: int

    @classmethod
    def of(cls, host: str, port: int, *, secure: bool) -> "Address":
        shown = f"[{host}]" if ":" in host else host
        address = cls(f"{'https' if secure else 'http'}://{shown}:{port}")
        address.host, address.port = host, port
        return address

    @property
    def ws(self) -> str:
        """The same as a WebSocket's URL."""
        return "ws" + self[4:]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadLook:
    """One thread as it is now; for looking."""

    principal: str
    thread_id: str
    messages: tuple[Mapping[str, Json], ...]
    state: Json
    run_id: str | None
    queued: int
    open_calls: int
    pages: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLook:
    """One session as it is now; for looking."""

    id: str
    principal: str
    document_id: str
    attached: bool
    tools: tuple[str, ...]
    threads: tuple[str, ...]
    held_calls: int


class Bridge:
    """An agent's hands in web pages.

    `store`: "memory", "sqlite:///file.db" or a Store. `authenticate(token, request) -> Principal |
    None` and `authorize(principal, action, thread_id, name=None) -> bool` may be sync or async.
    `origins` are allowed beside the server's own. `clock` and `ids` are for tests.

    Raises:
        UsageError: a store that is not known, an agent or a tool that cannot be one.
    """

    def __init__(
        self,
        *,
        policy: Policy | None = None,
        store: str | Store = "memory",
        authenticate: Authenticator | None = None,
        authorize: Authorizer | None = None,
        origins: Iterable[str] = (),
        agents: Mapping[str, Agent] | None = None,
        tools: Iterable[Any] = (),
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        self.policy = policy or Policy()
        self._store = _store_of(store)
        self._authenticate = authenticate
        self._authorize = authorize
        self._origins = tuple(origins)
        self._clock = clock or LoopClock()
        self._ids = ids or RandomIds()
        self._agents: dict[str, Any] = {}
        self._tools: dict[str, ServerTool] = {}
        self._specs: dict[str, ToolSpec] = {}
        self._sources = Sources(self.add_tool, self._specs)
        self._observers: list[Observer] = []
        self._hooks = Hooks()
        self._schemas = SchemaRoom(
            schema_bytes=self.policy.schema_bytes,
            schema_depth=self.policy.schema_depth,
            schema_nodes=self.policy.schema_nodes,
            schema_expanded_nodes=self.policy.schema_expanded_nodes,
        )
        self._driver: Driver | None = None
        self._greeter: Greeter | None = None
        for name, agent in (agents or {}).items():
            self.add_agent(name, agent)
        for tool in tools:
            self.add_tool(tool)

    # ---- registering -------------------------------------------------------------------------

    @overload
    def agent(self, function: F, /) -> F: ...
    @overload
    def agent(self, name: str = "default", /) -> Callable[[F], F]: ...
    def agent(self, given: Any = "default", /) -> Any:
        """Register an agent: `@bridge.agent` is "default", `@bridge.agent("billing")` another."""
        if callable(given):
            self.add_agent("default", given)
            return given

        def register(function: F) -> F:
            self.add_agent(given, function)
            return function

        return register

    def add_agent(self, name: str, agent: Agent) -> None:
        """Register an agent under a name; the newest of a name counts.

        Raises:
            UsageError: it is not callable, or the name is no id.
        """
        if not callable(agent):
            raise UsageError(f"agent {name!r} is not callable")
        if not is_id(name):
            raise UsageError(f"{name!r} cannot be an agent's name")
        self._agents[name] = agent

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, /, **options: Any) -> Callable[[F], F]: ...
    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Register a server tool; the options are those of `handspan.shell.tools.server_tool`."""
        if function is not None:
            self.add_tool(server_tool(function, **options))
            return function

        def register(wrapped: F) -> F:
            self.add_tool(server_tool(wrapped, **options))
            return wrapped

        return register

    def add_tool(self, tool: Any) -> None:
        """Register a function, or a ServerTool; of two of one name the newest counts.

        Or a ToolSource, such as `handspan.mcp.MCPTools`: it is opened when the bridge begins to
        serve, and closed with it.

        Raises:
            UsageError: no tool can be made of it, its schema is none, or it is a source and the
                bridge serves already.
        """
        if isinstance(tool, ToolSource):
            self._sources.add(tool)
            return
        made = tool if isinstance(tool, ServerTool) else server_tool(tool)
        spec = specify(made.tool, self._schemas.compile, invoke=made.invoke)
        if isinstance(spec, SchemaRefusal):
            raise UsageError(f"tool {made.tool.name!r}: {spec.message}")
        self._tools[made.tool.name] = made
        self._specs[made.tool.name] = spec

    def hook(self, name: str, /) -> Callable[[F], F]:
        """Register a hook: `@bridge.hook("before_call")` on `async def hook(value, next)`.

        Those of one name are asked in the order of their registration; docs/reference/hooks.md has
        what each gets and may answer.

        Raises:
            UsageError: there is no hook of this name, or this cannot be called.
        """
        self._hooks.check(name)

        def register(function: F) -> F:
            self._hooks.add(name, function)
            return function

        return register

    def suggest(self, function: F, /) -> F:
        """Ask `function(result)` what the user might say next, after each run that completed.

        Sync or async; a list of texts. In its own time: no run waits for it.

        Raises:
            UsageError: it cannot be called, or there is one already.
        """
        self._hooks.add_suggest(function)
        return function

    def observe(self, observer: Observer) -> Observer:
        """Call `observer(thread_id, event)` for every event; it only looks.

        Raises:
            UsageError: it cannot be called, or is async: nobody would wait for it.
        """
        if not callable(observer) or is_async(observer):
            raise UsageError("an observer is a plain function, which must not wait")
        self._observers.append(observer)
        return observer

    def allow_origins(self, origins: Iterable[str]) -> None:
        """Allow pages of these origins too (`--origin`); before `running`."""
        self._origins = (*self._origins, *origins)

    # ---- serving -----------------------------------------------------------------------------

    async def serve(
        self,
        host: str = "127.0.0.1",
        port: int = 8765,
        ssl: tls.SSLContext | None = None,
        **options: Any,
    ) -> None:
        """Listen until cancelled. Options: see `running`."""
        async with self.running(host, port, ssl, **options):
            await asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def running(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        ssl: tls.SSLContext | None = None,
        *,
        insecure: bool = False,
        allow_hosts: Iterable[str] = (),
        static: Path | None = None,
        metrics_open: bool = False,
    ) -> AsyncIterator[Address]:
        """Listen while the context lasts; yields the address, with the port that was given.

        `insecure` allows a bind that others can reach without an authenticator. `allow_hosts` are
        further names that a `Host` header may have. `static`: a folder to serve at `/`.

        Raises:
            UsageError: a non-loopback bind without an authenticator.
            Unavailable: a source of tools cannot be had.
            OSError: the port cannot be had.
        """
        if not (insecure or self._authenticate is not None or is_loopback(host)):
            raise UsageError(
                f"{host} can be reached by others and there is no authenticator; add one, or say"
                " insecure=True (--insecure)"
            )
        from handspan.shell.websocket import serve as listen  # 30 ms that an import need not take

        page_frame()  # made now, not for the first page
        async with self._sources.opened():
            driver, greeter = self._at_work()
            try:
                async with listen(
                    greeter,
                    host=host,
                    port=port,
                    ssl=ssl,
                    policy=self.policy,
                    clock=self._clock,
                    origins=self._origins,
                    allow_hosts=allow_hosts,
                    authenticated=self._authenticate is not None,
                    static=static,
                    metrics_open=metrics_open,
                ) as listener:
                    with greeter.watched():
                        yield Address.of(host, listener.port, secure=ssl is not None)
            finally:
                if self._driver is driver:
                    await self.close()

    async def drain(self) -> None:
        """Refuse new runs, wait for those under way, say goodbye to the pages (behaviour 6)."""
        driver, _ = self._at_work()
        await driver.drain()

    async def close(self) -> None:
        """Abort what runs and forget every session; threads in memory are gone."""
        driver, self._driver, self._greeter = self._driver, None, None
        if driver is not None:
            await driver.close()

    # ---- from Python -------------------------------------------------------------------------

    async def run(
        self,
        message: str | list[Json] | Mapping[str, Json] | None = None,
        *,
        thread_id: str | None = None,
        agent: str | None = None,
        principal: Principal | None = None,
    ) -> RunResult:
        """Run an agent to its end. Without a thread_id on a new thread.

        A run that fails, or is refused (busy), gives reason "failed" with the error.

        Raises:
            UsageError: misuse: no such agent, no id, no message.
        """
        driver, _ = self._at_work()
        key = self._key(thread_id, principal)
        if not isinstance(agent or "", str) or (agent or "default") not in self._agents:
            raise UsageError(f"there is no agent {agent or 'default'!r}")
        run_id = RunId(self._ids.new("run"))
        if driver.is_draining:
            return RunResult(run_id=run_id, reason="failed", error=_DRAINING)
        request = i.RunRequested(
            asker=Asker(None, self._ids.new("ticket")),
            run_id=run_id,
            agent=agent,
            message=user_message(message),
            principal=principal or ANONYMOUS,
        )
        done = await driver.waiters.run(key, request)
        if isinstance(done, PeerError):
            failure = Failure(done.code.value, done.message)
            return RunResult(run_id=run_id, reason="failed", error=failure)
        return done

    async def call_tool(
        self,
        thread_id: str,
        name: str,
        args: Mapping[str, Json] | None = None,
        follow_up: bool | str = False,
        *,
        principal: Principal | None = None,
    ) -> CallResult:
        """Carry out one tool call on a thread, as a button would; returns when it has settled.

        Raises:
            UsageError: no id, or arguments that JSON cannot hold.
        """
        driver, _ = self._at_work()
        if not isinstance(name, str) or not isinstance(args or {}, Mapping):
            raise UsageError("bridge.call_tool wants a tool's name and a mapping of arguments")
        if not isinstance(follow_up, bool | str):
            raise UsageError("follow_up is True, False, or a text")
        if driver.is_draining:
            return CallResult(outcome="error", error=_DRAINING, name=name)
        request = i.InvokeRequested(
            asker=Asker(None, self._ids.new("ticket")),
            name=name,
            raw=encode(dict(args or {})).decode(),
            follow_up=follow_up,
            principal=principal or ANONYMOUS,
        )
        told, error = await driver.waiters.invoke(self._key(thread_id, principal), request)
        if error is not None or told is None:
            code = error.code if error else CommandCode.INTERNAL
            message = error.message if error else ""
            return CallResult(outcome="error", error=Failure(code.value, message), name=name)
        failed = told.get("error")
        return CallResult(
            outcome=told["outcome"],
            value=told.get("content", told.get("result")),
            error=Failure(failed["code"], failed["message"]) if failed else None,
            name=name,
            call_id=told["callId"],
            run_id=told["runId"],
        )

    # ---- looking -----------------------------------------------------------------------------

    @property
    def agent_names(self) -> tuple[str, ...]:
        """The names that a run may ask for, in the order they were added."""
        return tuple(self._agents)

    @property
    def threads(self) -> list[ThreadLook]:
        """Every thread in memory, least recently used first."""
        hub = self._driver.hub if self._driver else None
        return [
            ThreadLook(
                principal=key.principal,
                thread_id=key.thread_id,
                messages=thread.space.transcript.view(),
                state=thread.space.transcript.state,
                run_id=thread.run.id if thread.run else None,
                queued=len(thread.runs.queue),
                open_calls=len(thread.desk.open_calls),
                pages=len(thread.space.pages),
                offset=thread.head,
            )
            for key, thread in (hub.threads.items() if hub else ())
        ]

    @property
    def sessions(self) -> list[SessionLook]:
        """Every session, in the order they came."""
        hub = self._driver.hub if self._driver else None
        return [
            SessionLook(
                id=session.id,
                principal=session.principal.id,
                document_id=session.document,
                attached=session.connection is not None,
                tools=tuple(session.tools.current),
                threads=tuple(session.open),
                held_calls=len(session.holding.calls),
            )
            for session in (hub.sessions.values() if hub else ())
        ]

    # ---- parts -------------------------------------------------------------------------------

    def _at_work(self) -> "tuple[Driver, Greeter]":
        """The driver of the running loop; one of a loop that is gone is left behind.

        What works is imported now: an import of the library, which only registers, need not wait.
        """
        from handspan.shell.driver import Driver
        from handspan.shell.greeter import Greeter

        driver, greeter = self._driver, self._greeter
        here = asyncio.get_running_loop()
        if driver is not None and driver.loop is not here and driver.loop.is_running():
            raise UsageError("the bridge is at work on another event loop")
        if driver is None or greeter is None or driver.loop is not here:
            driver = Driver(
                policy=self.policy,
                clock=self._clock,
                ids=self._ids,
                store=self._store,
                compile_schema=self._schemas.compile,
                agents=self._agents,
                tools=self._tools,
                specs=self._specs,
                hooks=self._hooks,
            )
            driver.observers = self._observers
            driver.restore()
            greeter = Greeter(driver, self._authenticate, self._authorize)
            self._driver, self._greeter = driver, greeter
        return driver, greeter

    def _key(self, thread_id: str | None, principal: Principal | None) -> ThreadKey:
        wanted = self._ids.new("t") if thread_id is None else thread_id
        if not isinstance(principal or ANONYMOUS, Principal):
            raise UsageError(f"principal is a Principal, not {type(principal).__name__}")
        if not isinstance(wanted, str) or not is_id(wanted):
            raise UsageError(f"{wanted!r} cannot be a thread's id")
        return ThreadKey((principal or ANONYMOUS).id, ThreadId(wanted))


def _store_of(store: str | Store) -> Store:
    return store_of(store) if isinstance(store, str) else store
