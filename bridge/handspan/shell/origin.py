"""Who may come in, judged by headers alone: `Host`, `Origin` and the peer's address.

Two attacks are met here. A foreign page opens a socket to this server: its `Origin` gives it away.
A foreign name is made to resolve to this server (DNS rebinding): then `Host` and `Origin` agree
with each other, and only `Host` shows that the name is not ours. So both are checked, `Host` on
every HTTP route too. *Source:* behaviour.md 7.

Pure functions over header values. Deliberately does not know what a request or a socket is; above
sits `websocket`. In doubt the answer is no: what does not parse is refused, names are compared
whole, and a trailing dot or an unusual spelling of an address makes another name.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from handspan_protocol.errors import UsageError

__all__ = ["Authority", "Door", "Origin", "client_address", "is_among", "is_local", "is_loopback"]

_NAME: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_IPV4_LIKE: Final = re.compile(r"(.*\.)?[0-9]+|.*\.0x[0-9a-f]*|0x[0-9a-f]*")
_AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[^\[\]:@/?#\\]+)(:(?P<port>[0-9]{1,5}))?")
_ORIGIN: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#\\]+)")

_DEFAULT_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""On a loopback bind these are one server, whichever of them a page was opened with."""
_ANY_ADDRESS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to


@dataclass(frozen=True, slots=True)
class Authority:
    """A host, lower case and an IPv6 address without brackets, and a port if one was given."""

    host: str
    port: int | None

    @staticmethod
    def read(text: str) -> "Authority | None":
        """The value of a `Host` header; None when it is not one."""
        match = _AUTHORITY.fullmatch(text.lower())
        if match is None:
            return None
        host, port = _host(match["host"]), match["port"]
        if host is None or (port is not None and not 0 < int(port) < 65_536):
            return None
        return Authority(host, int(port) if port else None)


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port; the port is the scheme's own when none was given."""

    scheme: str
    host: str
    port: int | None

    @staticmethod
    def read(text: str) -> "Origin | None":
        """The value of an `Origin` header; None for `null` and for what is not one."""
        match = _ORIGIN.fullmatch(text.lower())
        authority = Authority.read(match["authority"]) if match else None
        if match is None or authority is None:
            return None
        port = authority.port or _DEFAULT_PORTS.get(match["scheme"])
        return Origin(match["scheme"], authority.host, port)


@dataclass(frozen=True, slots=True)
class Door:
    """The rules of one server.

    `bind` is the host it was told to listen on; `origins` and `hosts` are what its owner added;
    `authenticated` says that every hello needs a token.
    """

    bind: str
    origins: frozenset[Origin]
    hosts: frozenset[Authority]
    authenticated: bool

    @staticmethod
    def of(
        bind: str, origins: Iterable[str], allow_hosts: Iterable[str], *, authenticated: bool
    ) -> "Door":
        """The rules as a user wrote them.

        Raises:
            UsageError: an origin or a host that cannot be one; there are no wildcards.
        """
        return Door(
            _bare(bind),
            frozenset(_wanted_origin(text) for text in origins),
            frozenset(_wanted_host(text) for text in allow_hosts),
            authenticated,
        )

    def admits_host(self, values: Sequence[str]) -> bool:
        """Whether the `Host` headers are one header that names this server.

        That is a name of the bind address (any IP address when it is bound to all of them: what
        is rebound is a name), the host of an allowed origin, or an allowed host.
        """
        given = Authority.read(values[0]) if len(values) == 1 else None
        if given is None:
            return False
        if given.host in self._own_names() or any(o.host == given.host for o in self.origins):
            return True
        if self.bind in _ANY_ADDRESS and (given.host == "localhost" or _is_address(given.host)):
            return True
        return given in self.hosts or Authority(given.host, None) in self.hosts

    def admits_origin(
        self, values: Sequence[str], hosts: Sequence[str], *, secure: bool, local: bool
    ) -> bool:
        """Whether a socket with these `Origin` headers may open.

        `hosts` has passed `admits_host`. No `Origin` at all is not a browser: it needs a token, or
        has to be on this machine (`local`).
        """
        if not values:
            return self.authenticated or local
        origin = Origin.read(values[0]) if len(values) == 1 else None
        if origin is None:
            return False
        return origin in self.origins or self._is_own(origin, hosts, secure)

    def _is_own(self, origin: Origin, hosts: Sequence[str], secure: bool) -> bool:
        host = Authority.read(hosts[0]) if len(hosts) == 1 else None
        scheme = "https" if secure else "http"
        if host is None or origin.scheme != scheme:
            return False
        if origin.port != (host.port or _DEFAULT_PORTS[scheme]):
            return False
        own = self._own_names()
        return origin.host == host.host or (origin.host in own and host.host in own)

    def _own_names(self) -> frozenset[str]:
        if is_loopback(self.bind):
            return _LOOPBACK_NAMES | {self.bind}
        return frozenset() if self.bind in _ANY_ADDRESS else frozenset({self.bind})


def is_loopback(host: str) -> bool:
    """Whether a host is this machine as only this machine can reach it."""
    bare = _bare(host)
    return _address(bare).is_loopback if _is_address(bare) else bare == "localhost"


def client_address(peer: str, forwarded: Sequence[str], trusted: Collection[str]) -> str:
    """Who is at the other end, going back through trusted proxies only.

    `forwarded` are the values of `X-Forwarded-For`, each a list with the nearest hop last;
    `trusted` are addresses or networks. The first hop from our side that is not trusted is the
    one; what stands before it, anybody may have written.
    """
    address = peer
    hops = [hop.strip() for value in forwarded for hop in value.split(",")]
    while hops and is_among(address, trusted):
        nearest = _bare(hops.pop())
        if not _is_address(nearest):
            break
        address = nearest
    return address


def is_local(peer: str, forwarded: Sequence[str], trusted: Collection[str]) -> bool:
    """Whether the other end is on this machine.

    A proxy on this machine that nobody called trusted brings strangers from loopback: what it
    marks as forwarded is not local, whatever it says.
    """
    address = client_address(peer, forwarded, trusted)
    return is_loopback(address) and (not forwarded or address != peer)


def _host(text: str) -> str | None:
    """A host's one spelling; None when it is none."""
    if text.startswith("["):
        try:
            return str(IPv6Address(text[1:-1]))
        except ValueError:
            return None
    if _IPV4_LIKE.fullmatch(text):  # "127.1" is an address to some and a name to others
        return text if _is_address(text) else None
    return text if _NAME.fullmatch(text) else None


def _bare(host: str) -> str:
    """A host as users write it: any case, IPv6 with or without brackets."""
    bare = host.strip().lower().removeprefix("[").removesuffix("]")
    return str(ip_address(bare)) if _is_address(bare) else bare


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _address(text: str) -> IPv4Address | IPv6Address:
    """The address; an IPv4 one in IPv6 clothes (`::ffff:127.0.0.1`) comes out as IPv4."""
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def is_among(address: str, networks: Collection[str]) -> bool:
    """Whether an address is one of, or in one of, these addresses and networks."""
    try:
        return any(_address(address) in ip_network(each, strict=False) for each in networks)
    except ValueError:
        return False


def _wanted_origin(text: str) -> Origin:
    origin = Origin.read(text)
    if origin is None:
        raise UsageError(f"not an origin: {text!r}; one looks like https://app.example:8443")
    return origin


def _wanted_host(text: str) -> Authority:
    bare = f"[{text}]" if text.count(":") > 1 and not text.startswith("[") else text
    host = Authority.read(bare)
    if host is None:
        raise UsageError(f"not a host: {text!r}; one looks like app.example or app.example:8443")
    return host
