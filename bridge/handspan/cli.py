"""The command line: serve a bridge, show the demo, print the schema, look at threads.

Owns how a person starts and stops the server: one helpful line for what is wrong (exit status 2
for a bad argument or a module that cannot be loaded), a banner with the address, logs that can be
read in a terminal or by a machine, and an orderly end on SIGTERM and SIGINT (behaviour 6).
"""

import asyncio
import contextlib
import errno
import importlib
import logging
import os
import signal
import ssl
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.console import Console
from rich.logging import RichHandler

import handspan
from handspan.cli_threads import threads
from handspan.server import Address, Bridge
from handspan.shell.jsonlog import JsonLines
from handspan.shell.reload import CHILD, watch
from handspan_protocol.errors import HandspanError
from handspan_protocol.generate import schema_texts

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Gives an AI agent hands in a web page.",
)
_console = Console(stderr=True, highlight=False)
_LOG = logging.getLogger("handspan.cli")

LEAVE_S: Final = 2.0
"""What a tool's thread that cannot be stopped gets after the bridge is closed."""

Host = Annotated[str, typer.Option(help="The address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")]
Origins = Annotated[list[str] | None, typer.Option(help="A page's origin to allow; repeatable.")]
Hosts = Annotated[list[str] | None, typer.Option(help="A further name in `Host`; repeatable.")]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Listen beyond loopback without an authenticator.")
]
Static = Annotated[
    Path | None,
    typer.Option(
        exists=True, file_okay=False, help="A folder to serve at /: all of it but dotfiles."
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="A model as the agent: local, openai:NAME, anthropic:NAME, ollama:NAME or"
        " http://HOST:PORT/v1#NAME; without #NAME, the first model that the server has."
    ),
]
Metrics = Annotated[
    bool, typer.Option("--metrics", help="Answer /metrics to others than loopback.")
]
JsonLog = Annotated[bool, typer.Option("--log-json", help="One JSON object a line.")]
Reload = Annotated[
    bool, typer.Option("--reload", help="Restart when a .py file below this folder changes.")
]


def main() -> None:
    """The console script; whatever the user did wrong is one line, never a traceback."""
    try:
        status = app(standalone_mode=False)
    except typer.Exit as left:
        status = left.exit_code
    except (typer.Abort, KeyboardInterrupt):
        status = 130
    except HandspanError as problem:
        status = _said(str(problem))
    except BrokenPipeError:  # whoever read on has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except Exception as problem:
        status = _misused(problem)
    sys.exit(status if isinstance(status, int) else 0)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"handspan {handspan.__version__}")  # noqa: T201
        raise typer.Exit


@app.command()
def serve(  # noqa: PLR0917 (typer reads its options off the signature)
    target: Annotated[str, typer.Argument(metavar="APP:BRIDGE", help="module:attribute")],
    host: Host = "127.0.0.1",
    port: Port = 8765,
    origin: Origins = None,
    allow_host: Hosts = None,
    insecure: Insecure = False,
    static: Static = None,
    metrics: Metrics = False,
    reload: Reload = False,
    log_json: JsonLog = False,
) -> None:
    """Serve the Bridge of a Python module."""
    _set_up_logs(log_json)
    if reload and os.environ.pop(CHILD, None) is None:
        raise typer.Exit(watch(Path.cwd()))
    bridge = _load(target)
    bridge.allow_origins(origin or ())
    _run(
        lambda: _serve(
            bridge,
            host,
            port,
            insecure=insecure,
            allow_hosts=allow_host or (),
            static=static,
            metrics_open=metrics,
        ),
        host,
        port,
    )


@app.command()
def demo(
    host: Host = "127.0.0.1",
    port: Port = 8765,
    model: Model = None,
    insecure: Insecure = False,
    log_json: JsonLog = False,
) -> None:
    """Show the demo page with an agent that needs no key, or with a model."""
    from handspan.demo import demo_bridge
    from handspan.demo.models import agent_of

    _set_up_logs(log_json)
    page = _demo_page()
    bridge = demo_bridge(model=agent_of(model) if model is not None else None)
    _run(lambda: _serve(bridge, host, port, static=page, insecure=insecure), host, port)


@app.command()
def schema() -> None:
    """Print the JSON Schema of all frames."""
    import json

    texts = {name.removesuffix(".json"): json.loads(t) for name, t in schema_texts().items()}
    print(json.dumps(texts, indent=2))  # noqa: T201


app.add_typer(threads, name="threads")


# ---- parts -----------------------------------------------------------------------------------


def _misused(problem: Exception) -> int:
    """One line for what typer refused; anything else is ours, and raises again."""
    said = getattr(problem, "format_message", None)
    if said is None:
        raise problem
    return _said(" ".join(str(said()).split()))


def _said(one_line: str) -> int:
    if one_line:  # none: the help was printed instead
        _console.print(f"handspan: {one_line}", markup=False, soft_wrap=True)
    return 2


def _fail(message: str, status: int = 2) -> NoReturn:
    _console.print(f"handspan: {message}", markup=False, soft_wrap=True)
    raise typer.Exit(status)


def _load(target: str) -> Bridge:
    module_name, _, attribute = target.partition(":")
    if not attribute or not all(part.isidentifier() for part in module_name.split(".")):
        _fail(f"{target!r} is not module:attribute, as in app:bridge")
    if module_name.endswith(".py"):
        _fail(f"{target!r} names a file; say {module_name.removesuffix('.py')}:{attribute}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module_name)
        for name in attribute.split("."):
            found = getattr(found, name)
    except (Exception, SystemExit) as problem:
        said = str(problem).strip().splitlines() or [""]
        why = f"{type(problem).__name__}: {said[0]}"
        _fail(f"{target} cannot be loaded: {why}{_place(problem)}")
    if not isinstance(found, Bridge):
        _fail(f"{target} is a {type(found).__name__}, not a handspan.Bridge")
    return found


def _place(problem: BaseException) -> str:
    """Where in the user's own folder it went wrong: ` (app.py, line 3)`; nothing if elsewhere."""
    if isinstance(problem, SyntaxError):  # says so itself
        return ""
    package = Path(handspan.__file__).parent
    for frame in reversed(traceback.extract_tb(problem.__traceback__)):
        file = Path(frame.filename)
        theirs = "site-packages" in file.parts or file.is_relative_to(package)
        if file.is_relative_to(Path.cwd()) and not theirs:
            return f" ({file.name}, line {frame.lineno})"
    return ""


def _demo_page() -> Path:
    """The page's files: beside the sources in a checkout, inside the package in a wheel."""
    package = Path(handspan.__file__).parent
    for folder in (package.parents[1] / "web-demo", package / "web_demo"):
        if (folder / "index.html").is_file():
            return folder
    _fail("the demo's page is not here", 1)


async def _serve(bridge: Bridge, host: str, port: int, **options: Any) -> None:
    """Serve until the first signal, drain, and leave; a second signal leaves at once."""
    async with bridge.running(host, port, **options) as address:
        _banner(address)
        if not bridge.agent_names:
            _LOG.warning("there is no agent: buttons work, and every message is refused")
        stop = asyncio.Event()

        def signalled(number: int) -> None:
            if stop.is_set():
                os._exit(128 + number)  # at once: nothing is waited for, not even a tool's thread
            stop.set()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows
                loop.add_signal_handler(number, signalled, number)
        await stop.wait()
        _LOG.info("draining: runs may end; the same signal again leaves at once")
        await bridge.drain()
    _leave_soon()


def _leave_soon() -> None:
    """Python waits for every thread before it ends, and a tool's may never do: bound that."""

    def leave() -> None:
        _LOG.warning("a thread of a tool does not end; leaving without it")
        os._exit(0)

    watchdog = threading.Timer(LEAVE_S, leave)
    watchdog.daemon = True
    watchdog.start()


def _banner(address: Address) -> None:
    if any(isinstance(each.formatter, JsonLines) for each in logging.getLogger().handlers):
        _LOG.info("serving", extra={"version": handspan.__version__, "address": str(address)})
        return
    _console.print(f"Handspan {handspan.__version__} on [bold]{address}[/bold]  (Ctrl-C to stop)")


def _run(work: Callable[[], Coroutine[Any, Any, None]], host: str, port: int) -> None:
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(work())
    except (HandspanError, ssl.SSLError) as problem:
        _fail(str(problem))
    except OSError as problem:
        taken = problem.errno == errno.EADDRINUSE
        why = "the port is taken; try --port" if taken else problem.strerror or problem
        _fail(f"cannot listen on {host}:{port}: {why}", 1)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed (extra `fast`)."""
    with contextlib.suppress(ImportError):
        factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module(
            "uvloop"
        ).new_event_loop
        return factory
    return None


def _set_up_logs(as_json: bool) -> None:
    handler: logging.Handler
    if as_json:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonLines())
    elif _console.is_terminal:
        handler = RichHandler(console=_console, show_path=False, markup=False)
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s", datefmt="[%X]"))
    else:  # rich would break lines where no screen ends
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("websockets").setLevel(logging.WARNING)
