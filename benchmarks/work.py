"""What is asked of either server, and what it tells of it: the common ground of both."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

DELTA: Final = "twelve chars"
"""12 characters: three tokens, about what a model's stream has in an event."""


@dataclass(frozen=True, slots=True)
class Work:
    """One run's job, as text so that it fits into a message: see `of`."""

    kind: str
    count: int
    """Deltas (of a depth, where there are several), or calls."""
    tool: str = ""
    paced: bool = False
    """One delta in a tick of the loop, as when a model speaks; else as fast as it goes."""
    depth: int = 0

    @classmethod
    def of(cls, text: str) -> "Work":
        """`stream 2000`, `paced 2000`, `trips read 20`, `depth 20 2000`."""
        match text.split():
            case ["stream", count]:
                return cls("stream", int(count))
            case ["paced", count]:
                return cls("stream", int(count), paced=True)
            case ["trips", tool, count]:
                return cls("trips", int(count), tool=tool)
            case ["depth", depth, count]:
                return cls("depth", int(count), depth=int(depth))
        raise ValueError(text)


@dataclass(slots=True)
class Clocked:
    """What the server itself took the time of, in seconds."""

    samples: list[float] = field(default_factory=list)

    @contextmanager
    def trip(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.samples.append(time.perf_counter() - began)

    def taken(self) -> list[float]:
        """The samples since the last time."""
        samples, self.samples = self.samples, []
        return samples
