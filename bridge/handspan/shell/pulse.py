"""Finds a peer that vanished without a word, by silence that pings do not end.

Owns one timer per socket. Deliberately does not know sessions or frames: what counts is any byte
from the peer, and the ping is the transport's own (a page answers it even while its scripts are
busy). Above sits a transport; *Source:* cases C140, C142.
"""

import logging
from typing import Final, Protocol

from handspan.ports import Clock

from .socket import Socket

__all__ = ["SILENT_HEARTBEATS", "Pinged", "Pulse"]

SILENT_HEARTBEATS: Final = 3
"""A page that was silent for so many heartbeats, though pinged, is gone."""

_LOG = logging.getLogger("handspan.socket")


class Pinged(Protocol):
    """A connection as its pulse sees it. All of it returns at once."""

    @property
    def is_open(self) -> bool:
        """Neither closing nor closed."""

    @property
    def is_full(self) -> bool:
        """The transport is above its limit."""

    def ping(self) -> None:
        """Send a ping of the transport's protocol."""

    def expect_end(self) -> None:
        """The connection is closing: abort it when that takes too long."""

    def abort(self) -> None:
        """Drop the transport."""


class Pulse:
    """Beats every `heartbeat` seconds: pings a silent page, aborts one that stays silent."""

    def __init__(
        self, connection: Pinged, socket: Socket, *, clock: Clock, heartbeat: float
    ) -> None:
        self._connection = connection
        self._socket = socket
        self._clock = clock
        self._heartbeat = heartbeat
        self._alive_at = clock.now()
        self._timer = clock.call_at(self._alive_at + heartbeat, self._beat)

    def stop(self) -> None:
        """Beat no more."""
        self._timer.cancel()

    def _beat(self) -> None:
        if not self._connection.is_open:
            self._connection.expect_end()
            return
        now = self._clock.now()
        # A full transport is watched by the writer's deadline, and a ping would not get through.
        full = self._connection.is_full
        self._alive_at = now if full else max(self._alive_at, self._socket.heard_at)
        silent = now - self._alive_at
        if silent >= SILENT_HEARTBEATS * self._heartbeat:
            _LOG.info("socket %d aborted: nothing is heard of it", self._socket.id)
            self._connection.abort()
            return
        if silent >= self._heartbeat:
            self._connection.ping()
        self._timer = self._clock.call_at(now + self._heartbeat, self._beat)
