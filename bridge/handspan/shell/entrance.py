"""What becomes of a request on the port: a socket that may open, or an HTTP answer.

Owns the order of the checks, and what is known of a page before its first frame. Deliberately does
not know the library that read the request; above sits `websocket`, below sit `origin`, `http` and
the gate.
"""

import logging
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from handspan.core.policy import Policy
from handspan.ports import Request

from .http import Answer, Site, plain
from .origin import Door, client_address, is_among, is_local
from .socket import Gate, where

__all__ = ["Entrance"]

_SOCKET_PATH: Final = "/"
_LOG = logging.getLogger("handspan.socket")


class Entrance:
    """The one way in. `secure`: the port speaks TLS itself."""

    def __init__(self, gate: Gate, door: Door, site: Site, policy: Policy, *, secure: bool) -> None:
        self._gate = gate
        self._door = door
        self._site = site
        self._policy = policy
        self._secure = secure

    def judge(
        self,
        peer: str,
        method: str,
        target: str,
        headers: Iterable[tuple[str, str]],
        *,
        unwelcomed: int,
    ) -> Request | Answer:
        """A Request when a socket may open, else the answer to send.

        `peer` is the address of the TCP connection, `unwelcomed` how many sockets are open and not
        welcomed.
        """
        by_name: dict[str, list[str]] = {}
        for name, value in headers:
            by_name.setdefault(name.lower(), []).append(value)
        hosts = by_name.get("host", [])
        forwarded = by_name.get("x-forwarded-for", [])
        local = is_local(peer, forwarded, self._policy.trusted_proxies)
        if not self._door.admits_host(hosts):
            return _refuse(peer, HTTPStatus.FORBIDDEN, "its Host is not ours")
        if not any("websocket" in value.lower() for value in by_name.get("upgrade", [])):
            return self._http(method, target, by_name, local)
        if target.partition("?")[0] != _SOCKET_PATH:
            return _refuse(peer, HTTPStatus.NOT_FOUND, "sockets are at /")
        request = self._request(peer, target, by_name)
        origins = by_name.get("origin", [])
        if not self._door.admits_origin(origins, hosts, secure=request.secure, local=local):
            return _refuse(peer, HTTPStatus.FORBIDDEN, "its Origin is not allowed")
        if self._gate.draining():
            return _refuse(peer, HTTPStatus.SERVICE_UNAVAILABLE, "the server is draining")
        if unwelcomed >= self._policy.unwelcomed_sockets:
            return _refuse(peer, HTTPStatus.SERVICE_UNAVAILABLE, "too many sockets before welcome")
        return request

    def _http(self, method: str, target: str, by_name: dict[str, list[str]], local: bool) -> Answer:
        tags = ", ".join(by_name.get("if-none-match", []))
        try:
            return self._site.answer(method, target, local=local, if_none_match=tags or None)
        except Exception as error:  # the gate's metrics are foreign code
            _LOG.error("an HTTP answer failed, %s", where(error))
            return plain(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _request(self, peer: str, target: str, by_name: dict[str, list[str]]) -> Request:
        """Header names are lower case; several values of one are joined with commas."""
        trusted = self._policy.trusted_proxies
        headers = {name: ", ".join(values) for name, values in by_name.items()}
        proxied_tls = is_among(peer, trusted) and headers.get("x-forwarded-proto") == "https"
        return Request(
            path=target,
            headers=headers,
            origin=headers.get("origin"),
            address=client_address(peer, by_name.get("x-forwarded-for", []), trusted),
            secure=self._secure or proxied_tls,
        )


def _refuse(peer: str, status: HTTPStatus, why: str) -> Answer:
    _LOG.info("refused %s: %s", peer, why)
    return plain(status)
