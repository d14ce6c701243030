"""What the user might say next, thought of behind a run that completed.

Owns whose suggestions are still wanted: those of the newest run, until another begins. Nobody
waits for them. *Source:* api.md, protocol.md 1.
"""

from collections.abc import Collection

from handspan_protocol.ids import RunId

from .effects import RunValue, StopSuggesting, Suggest
from .inputs import SuggestionsMade
from .space import Space


class Suggesting:
    """The suggestions of one thread, where somebody registered a function for them."""

    __slots__ = ("_hooks", "_space", "of")

    def __init__(self, space: Space, hooks: Collection[str]) -> None:
        self._space = space
        self._hooks = hooks
        self.of: RunId | None = None
        """The run that somebody thinks about."""

    def begin(self, value: RunValue) -> None:
        """Ask, if there is anybody to ask."""
        if "suggest" in self._hooks:
            self.of = value.run_id
            self._space.do(Suggest(value, self._space.transcript.shown_to(None)))

    def stop(self) -> None:
        """Nobody wants to know any more."""
        if self.of is not None:
            self._space.do(StopSuggesting(self.of))
            self.of = None

    def made(self, event: SuggestionsMade) -> None:
        """They have come; everybody on the thread is told."""
        if event.run_id == self.of:
            self.of = None
            self._space.suggestions = event.items
            told = {"runId": event.run_id, "items": list(event.items)}
            self._space.custom("suggestions", told)
