"""Limits and times: what may stand there, and what a page is told of them."""

from dataclasses import fields

import pytest

from handspan.core.policy import Policy
from handspan_protocol.errors import UsageError

NUMBERS = [f.name for f in fields(Policy) if isinstance(f.default, int | float)]
ZERO = {"page_grace", "drain_grace", "cleanup_grace", "max_depth"}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [-1, float("inf"), float("nan"), "1", None, True, (1,), [1]])
def test_p12_a_limit_that_is_none_is_refused_by_its_name(name, value):
    with pytest.raises(UsageError, match=name):
        Policy(**{name: value})


@pytest.mark.parametrize("name", NUMBERS)
def test_zero_is_a_limit_only_where_it_means_something(name):
    if name in ZERO:
        assert getattr(Policy(**{name: 0}), name) == 0
    else:
        with pytest.raises(UsageError):
            Policy(**{name: 0})


@pytest.mark.parametrize(
    "name", ["on_error", "reflect", "tool_execution", "on_disconnect", "on_restart"]
)
@pytest.mark.parametrize("value", ["", "RESUME", None, 1, True])
def test_a_mode_that_does_not_exist_is_refused(name, value):
    with pytest.raises(UsageError, match=name):
        Policy(**{name: value})


def test_there_may_be_no_limit_of_sessions_per_address():
    assert Policy(sessions_per_address=None).sessions_per_address is None
    assert Policy(sessions_per_address=3).sessions_per_address == 3
    with pytest.raises(UsageError):
        Policy(sessions_per_address=0)


def test_a_policy_cannot_be_changed():
    with pytest.raises(AttributeError):
        Policy().tools = 1  # type: ignore[misc]


def test_a_timeout_is_the_tools_wish_cut_at_the_maximum():
    policy = Policy(tool_timeout=60, tool_timeout_max=900)
    assert [policy.timeout_of(wish) for wish in (None, 150, 900_000, 9_000_000)] == [
        60,
        0.15,
        900,
        900,
    ]
    assert Policy(tool_timeout=60, tool_timeout_max=10).timeout_of(None) == 10


def test_a_page_is_told_what_it_can_hit():
    told = Policy(page_grace=7).told()
    assert told["pageGrace"] == 7
    assert told["resultBytes"] == 1024 * 1024
    assert not [name for name in told if "_" in name]


def test_stop_conditions_are_kept_as_they_were_given():
    conditions = [lambda steps: True]
    policy = Policy(stop_when=conditions)
    conditions.append(lambda steps: False)
    assert len(policy.stop_when) == 1


@pytest.mark.parametrize(
    "given", [{"trusted_proxies": "10.0.0.1"}, {"stop_when": len}, {"stop_when": 1}]
)
def test_what_is_no_list_is_not_made_one(given):
    with pytest.raises(UsageError, match="must be a list"):
        Policy(**given)


KIB, MIB = 1_024, 1_024 * 1_024
DOCUMENTED = {
    **{"frame_bytes": 2 * MIB, "frames_per_second": 1_000, "frames_burst": 2_000},
    **{"unwelcomed_sockets": 1_000, "hello_timeout": 5},
    **{"tools": 128, "schema_bytes": 64 * KIB, "schema_depth": 64, "schema_nodes": 2_000},
    **{"schema_expanded_nodes": 10_000, "schemas_bytes": MIB, "description_chars": 4_096},
    **{"context_bytes": 256 * KIB, "state_bytes": MIB, "replies": 1_024, "replies_bytes": MIB},
    **{"open_threads": 64, "runs_per_session": 8, "queued_runs": 16, "calls_per_step": 64},
    **{"open_calls_per_run": 64, "open_calls_per_session": 128, "subruns_per_run": 64},
    **{"max_depth": 25, "max_repeats": 3, "output_bytes": 8 * MIB, "history_bytes": 64 * MIB},
    **{"result_bytes": MIB, "log_bytes": 16 * MIB, "log_events": 50_000},
    **{"threads": 10_000, "thread_idle": 3_600, "sessions_per_principal": 50},
    **{"sessions_per_address": None, "trusted_proxies": ()},
    **{"tool_timeout": 60, "tool_timeout_max": 900, "approval_timeout": 600, "hook_timeout": 30},
    **{"page_grace": 30, "resume_window": 120, "send_timeout": 10, "heartbeat": 20},
    **{"cleanup_grace": 5, "drain_grace": 10, "server_tools_at_once": 10, "stop_when": ()},
    **{"on_error": "resume", "reflect": "never", "tool_execution": "ordered"},
    "on_disconnect": "grace",
    "on_restart": "resume",
}
"""*Source:* behaviour.md 6."""


def test_p12_the_defaults_are_the_documented_ones():
    policy = Policy()
    assert {f.name: getattr(policy, f.name) for f in fields(Policy)} == DOCUMENTED


@pytest.mark.parametrize("wish", [10**400, 900_001])
def test_a_wish_of_any_size_is_cut(wish):
    assert Policy().timeout_of(wish) == 900
