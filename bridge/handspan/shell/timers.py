"""When each machine next wants to be told that time has passed.

Owns one timer a machine, set anew only when its deadline has changed. Above sits `driver`.
"""

from collections.abc import Callable, Hashable

from handspan.ports import Clock, Handle


class Timers:
    """`due` is called with a machine's name when its deadline has come."""

    def __init__(self, clock: Clock, due: Callable[[Hashable], None]) -> None:
        self._clock = clock
        self._due = due
        self._planned: dict[Hashable, tuple[float, Handle]] = {}

    def __contains__(self, name: Hashable) -> bool:
        return name in self._planned

    @property
    def names(self) -> list[Hashable]:
        """The machines that are waiting."""
        return list(self._planned)

    def keep(self, name: Hashable, deadline: float | None) -> None:
        """Call it at `deadline`, in place of an earlier plan; None: not at all."""
        planned = self._planned.get(name)
        if planned is not None:
            if planned[0] == deadline:
                return
            planned[1].cancel()
            del self._planned[name]
        if deadline is not None:
            handle = self._clock.call_at(deadline, lambda: self._time_is_up(name))
            self._planned[name] = (deadline, handle)

    def cancel_all(self) -> None:
        for _, handle in self._planned.values():
            handle.cancel()
        self._planned.clear()

    def _time_is_up(self, name: Hashable) -> None:
        self._planned.pop(name, None)
        self._due(name)
