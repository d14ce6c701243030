"""Every limit and time in one frozen, validated place. Durations in seconds, sizes in bytes.

Owns the numbers and what is said of them to a page (`told`); knows nothing of who asks for them.
*Source:* behaviour.md 6, which also says what happens at each limit.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from handspan_protocol import UsageError

StopCondition = Callable[[Any], Any]
"""A predicate over the steps of a run; sync or async; evaluated by the driver."""

_NONE_ALLOWED = frozenset({"sessions_per_address"})
_NO_NUMBERS = frozenset({"stop_when", "trusted_proxies"})
_ZERO_ALLOWED = frozenset({"page_grace", "drain_grace", "cleanup_grace", "max_depth"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """All limits of one bridge.

    Raises:
        UsageError: a limit that is not a positive number, or a mode that does not exist.
    """

    # frames and sockets
    frame_bytes: int = 2 * 1024 * 1024
    unwelcomed_sockets: int = 1_000
    hello_timeout: float = 5.0
    frames_per_second: float = 1_000
    frames_burst: int = 2_000

    # tools and what pages bring along
    tools: int = 128
    schema_bytes: int = 64 * 1024
    schema_depth: int = 64
    schema_nodes: int = 2_000
    schema_expanded_nodes: int = 10_000
    schemas_bytes: int = 1024 * 1024
    description_chars: int = 4_096
    context_bytes: int = 256 * 1024
    state_bytes: int = 1024 * 1024
    replies: int = 1_024
    replies_bytes: int = 1024 * 1024

    # threads, runs, calls
    open_threads: int = 64
    runs_per_session: int = 8
    queued_runs: int = 16
    calls_per_step: int = 64
    open_calls_per_run: int = 64
    open_calls_per_session: int = 128
    subruns_per_run: int = 64
    max_depth: int = 25
    max_repeats: int = 3
    output_bytes: int = 8 * 1024 * 1024
    history_bytes: int = 64 * 1024 * 1024
    result_bytes: int = 1024 * 1024
    log_bytes: int = 16 * 1024 * 1024
    log_events: int = 50_000
    threads: int = 10_000
    thread_idle: float = 3_600.0
    sessions_per_principal: int = 50
    sessions_per_address: int | None = None
    trusted_proxies: tuple[str, ...] = ()

    # times
    tool_timeout: float = 60.0
    tool_timeout_max: float = 900.0
    approval_timeout: float = 600.0
    hook_timeout: float = 30.0
    page_grace: float = 30.0
    resume_window: float = 120.0
    send_timeout: float = 10.0
    heartbeat: float = 20.0
    cleanup_grace: float = 5.0
    drain_grace: float = 10.0

    # behaviour
    on_error: Literal["resume", "stop"] = "resume"
    reflect: Literal["never", "at_limit"] = "never"
    tool_execution: Literal["ordered", "parallel"] = "ordered"
    on_disconnect: Literal["grace", "abort"] = "grace"
    on_restart: Literal["resume", "close"] = "resume"
    stop_when: tuple[StopCondition, ...] = field(default=())
    server_tools_at_once: int = 10

    def __post_init__(self) -> None:
        for name in _NO_NUMBERS:
            object.__setattr__(self, name, _listed(name, getattr(self, name)))
        for name, choices in _MODES.items():
            if getattr(self, name) not in choices:
                raise UsageError(f"Policy.{name} must be one of {', '.join(choices)}")
        for f in fields(self):
            if f.name not in _NO_NUMBERS and f.name not in _MODES:
                _check_number(f.name, getattr(self, f.name))

    def told(self) -> Mapping[str, Any]:
        """The limits a page can hit, in camelCase, durations in seconds: `welcome.limits`."""
        return {_camel(name): getattr(self, name) for name in _TOLD}

    def timeout_of(self, wish_ms: int | None) -> float:
        """Seconds a call may take from its dispatch; a longer wish than the maximum is cut."""
        if wish_ms is None:
            return min(self.tool_timeout, self.tool_timeout_max)
        return min(wish_ms, self.tool_timeout_max * 1000) / 1000  # any integer: cut, then divided


def _listed(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise UsageError(f"Policy.{name} must be a list")
    return tuple(value)


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.title() for word in rest)


def _check_number(name: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        if value is None and name in _NONE_ALLOWED:
            return
        raise UsageError(f"Policy.{name} must be a number")
    lowest_is_zero = name in _ZERO_ALLOWED
    if not (value >= 0 if lowest_is_zero else value > 0) or value == float("inf"):
        raise UsageError(f"Policy.{name} must be {'0 or more' if lowest_is_zero else 'above 0'}")


_MODES = {
    "on_error": ("resume", "stop"),
    "reflect": ("never", "at_limit"),
    "tool_execution": ("ordered", "parallel"),
    "on_disconnect": ("grace", "abort"),
    "on_restart": ("resume", "close"),
}

_TOLD = (
    *("frame_bytes", "frames_per_second", "frames_burst", "hello_timeout"),
    *("tools", "schema_bytes", "schema_depth", "schema_nodes", "schema_expanded_nodes"),
    *("schemas_bytes", "description_chars", "context_bytes", "state_bytes"),
    *("replies", "replies_bytes", "open_threads", "runs_per_session", "queued_runs"),
    *("open_calls_per_session", "max_depth", "result_bytes", "history_bytes"),
    *("tool_timeout", "tool_timeout_max", "approval_timeout", "page_grace", "resume_window"),
)
