"""Who may come in: the tables of Host, Origin and forwarded addresses (C146)."""

import pytest

from handspan.shell.origin import (
    Authority,
    Door,
    Origin,
    client_address,
    is_local,
    is_loopback,
)
from handspan_protocol.errors import UsageError


def door(bind: str = "127.0.0.1", *, authenticated: bool = False) -> Door:
    return Door.of(
        bind,
        ["https://app.example", "http://dev.example:3000", "http://[2001:db8::1]:80"],
        ["proxy.example", "exact.example:9000", "2001:db8::7"],
        authenticated=authenticated,
    )


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost", "localhost", None),
        ("LocalHost:8765", "localhost", 8765),
        ("127.0.0.1:1", "127.0.0.1", 1),
        ("[::1]:8765", "::1", 8765),
        ("[0:0:0:0:0:0:0:1]", "::1", None),
        ("my_host-1.example", "my_host-1.example", None),
    ],
)
def test_an_authority_has_one_spelling(text: str, host: str, port: int | None) -> None:
    assert Authority.read(text) == Authority(host, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ":80",
        "localhost:",
        "localhost:0",
        "localhost:65536",
        "localhost:x",
        "localhost:80:80",
        "localhost.",
        ".localhost",
        "a..b",
        "local host",
        "localhost ",
        "localhost\n",
        "localhost,evil.example",
        "user@localhost",
        "localhost/",
        "localhost\\",
        "::1",
        "[::1",
        "[]",
        "[::1]x",
        "[localhost]",
        "[fe80::1%eth0]",
        "127.1",
        "2130706433",
        "0x7f000001",
        "127.0.0.0x1",
        "0177.0.0.1",
        "127.0.0.1.",
        "evil.127.0.0.1",
        "ｌocalhost",
        "localhost\x00",
        "*",
        "http://localhost",
    ],
)
def test_what_is_not_a_host_is_refused(text: str) -> None:
    assert Authority.read(text) is None
    assert not door().admits_host([text])


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("http://localhost", Origin("http", "localhost", 80)),
        ("HTTPS://App.Example", Origin("https", "app.example", 443)),
        ("https://app.example:443", Origin("https", "app.example", 443)),
        ("http://[::1]:8765", Origin("http", "::1", 8765)),
        ("chrome-extension://abcdef", Origin("chrome-extension", "abcdef", None)),
        ("null", None),
        ("", None),
        ("*", None),
        ("localhost", None),
        ("http://", None),
        ("http://localhost/", None),
        ("http://localhost?x", None),
        ("http://a@localhost", None),
        ("http://localhost http://evil.example", None),
        ("//localhost", None),
        ("file://", None),
    ],
)
def test_an_origin_is_read_whole_or_not_at_all(text: str, origin: Origin | None) -> None:
    assert Origin.read(text) == origin


@pytest.mark.parametrize(
    ("bind", "hosts", "admitted"),
    [
        ("127.0.0.1", ["127.0.0.1:8765"], True),
        ("127.0.0.1", ["localhost:8765"], True),
        ("127.0.0.1", ["LOCALHOST"], True),
        ("127.0.0.1", ["[::1]:8765"], True),
        ("localhost", ["[::1]:8765"], True),
        ("::1", ["localhost"], True),
        ("[::1]", ["localhost"], True),
        ("127.0.0.2", ["127.0.0.2"], True),
        ("127.0.0.1", ["127.0.0.2"], False),
        ("127.0.0.1", ["evil.example:8765"], False),
        ("127.0.0.1", ["localhost.evil.example"], False),
        ("127.0.0.1", ["evil.localhost"], False),
        ("127.0.0.1", ["192.168.1.5"], False),
        ("127.0.0.1", ["app.example"], True),
        ("127.0.0.1", ["app.example:1234"], True),
        ("127.0.0.1", ["[2001:db8::1]"], True),
        ("127.0.0.1", ["proxy.example:443"], True),
        ("127.0.0.1", ["exact.example:9000"], True),
        ("127.0.0.1", ["exact.example"], False),
        ("127.0.0.1", ["exact.example:9001"], False),
        ("127.0.0.1", ["[2001:DB8:0::7]:99"], True),
        ("127.0.0.1", [], False),
        ("127.0.0.1", ["localhost", "localhost"], False),
        ("127.0.0.1", ["localhost", "evil.example"], False),
        ("192.168.1.5", ["192.168.1.5:8765"], True),
        ("192.168.1.5", ["localhost"], False),
        ("box.lan", ["BOX.lan:8765"], True),
        ("0.0.0.0", ["192.168.1.5:8765"], True),
        ("0.0.0.0", ["[2001:db8::99]"], True),
        ("::", ["localhost"], True),
        ("", ["10.0.0.1"], True),
        ("0.0.0.0", ["evil.example"], False),
        ("0.0.0.0", ["app.example"], True),
    ],
)
def test_host_must_be_ours(bind: str, hosts: list[str], admitted: bool) -> None:
    assert door(bind).admits_host(hosts) is admitted


@pytest.mark.parametrize(
    ("origin", "host", "admitted"),
    [
        ("http://localhost:8765", "localhost:8765", True),
        ("http://127.0.0.1:8765", "localhost:8765", True),
        ("http://[::1]:8765", "127.0.0.1:8765", True),
        ("HTTP://LOCALHOST:8765", "localhost:8765", True),
        ("http://localhost", "localhost", True),
        ("http://localhost:80", "localhost", True),
        ("http://localhost:8766", "localhost:8765", False),
        ("http://localhost", "localhost:8765", False),
        ("https://localhost:8765", "localhost:8765", False),
        ("http://evil.example", "localhost:8765", False),
        ("http://evil.example:8765", "localhost:8765", False),
        ("http://localhost.evil.example:8765", "localhost:8765", False),
        ("null", "localhost:8765", False),
        ("", "localhost:8765", False),
        ("http://localhost:8765/", "localhost:8765", False),
        ("https://app.example", "localhost:8765", True),
        ("https://app.example:443", "localhost:8765", True),
        ("https://App.Example", "localhost:8765", True),
        ("http://app.example", "localhost:8765", False),
        ("https://app.example.", "localhost:8765", False),
        ("https://sub.app.example", "localhost:8765", False),
        ("https://app.example:8443", "localhost:8765", False),
        ("http://dev.example:3000", "localhost:8765", True),
        ("http://[2001:db8::1]", "localhost:8765", True),
        ("http://proxy.example", "proxy.example", True),
        ("http://localhost", "proxy.example", False),
    ],
)
def test_origin_must_be_the_servers_own_or_on_the_list(
    origin: str, host: str, admitted: bool
) -> None:
    for local in (True, False):
        for authenticated in (True, False):
            rules = door(authenticated=authenticated)
            verdict = rules.admits_origin([origin], [host], secure=False, local=local)
            assert verdict is admitted


def test_the_own_origin_has_the_scheme_of_the_socket() -> None:
    host = ["app.lan"]
    rules = door("app.lan")
    assert rules.admits_origin(["https://app.lan"], host, secure=True, local=False)
    assert not rules.admits_origin(["http://app.lan"], host, secure=True, local=False)
    assert not rules.admits_origin(["https://app.lan"], host, secure=False, local=False)


def test_loopback_names_are_no_aliases_on_another_bind() -> None:
    rules = door("0.0.0.0")
    host = ["127.0.0.1:8765"]
    assert not rules.admits_origin(["http://localhost:8765"], host, secure=False, local=True)
    assert rules.admits_origin(["http://127.0.0.1:8765"], host, secure=False, local=True)


@pytest.mark.parametrize("values", [["http://localhost"] * 2, ["http://localhost", "null"]])
def test_several_origin_headers_are_refused(values: list[str]) -> None:
    assert not door().admits_origin(values, ["localhost"], secure=False, local=True)


@pytest.mark.parametrize(
    ("authenticated", "local", "admitted"),
    [(False, True, True), (True, True, True), (True, False, True), (False, False, False)],
)
def test_no_origin_needs_a_token_or_this_machine(
    authenticated: bool, local: bool, admitted: bool
) -> None:
    rules = door(authenticated=authenticated)
    assert rules.admits_origin([], ["localhost"], secure=False, local=local) is admitted


@pytest.mark.parametrize("text", ["*", "null", "app.example", "https://app.example/", ""])
def test_an_allow_list_takes_exact_origins_only(text: str) -> None:
    with pytest.raises(UsageError, match="origin"):
        Door.of("127.0.0.1", [text], [], authenticated=False)


@pytest.mark.parametrize("text", ["*", "", "*.example", "https://app.example", "a b"])
def test_allow_host_takes_exact_hosts_only(text: str) -> None:
    with pytest.raises(UsageError, match="host"):
        Door.of("127.0.0.1", [], [text], authenticated=False)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("LOCALHOST", True),
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:127.0.0.1", True),
        ("", False),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("localhost.example", False),
        ("example", False),
    ],
)
def test_loopback_is_known(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("peer", "forwarded", "trusted", "client"),
    [
        ("1.2.3.4", ["6.6.6.6"], [], "1.2.3.4"),
        ("1.2.3.4", ["6.6.6.6"], ["10.0.0.0/8"], "1.2.3.4"),
        ("10.0.0.1", ["6.6.6.6"], ["10.0.0.0/8"], "6.6.6.6"),
        ("10.0.0.1", ["6.6.6.6, 5.5.5.5, 10.0.0.2"], ["10.0.0.0/8"], "5.5.5.5"),
        ("10.0.0.1", ["6.6.6.6", "5.5.5.5"], ["10.0.0.1"], "5.5.5.5"),
        ("10.0.0.1", [], ["10.0.0.1"], "10.0.0.1"),
        ("10.0.0.1", ["unknown"], ["10.0.0.1"], "10.0.0.1"),
        ("10.0.0.1", ["1.1.1.1, garbage"], ["10.0.0.1"], "10.0.0.1"),
        ("::1", ["[2001:db8::5]"], ["::1"], "2001:db8::5"),
        ("::ffff:10.0.0.1", ["6.6.6.6"], ["10.0.0.0/8"], "6.6.6.6"),
        ("", ["6.6.6.6"], ["10.0.0.0/8"], ""),
    ],
)
def test_a_forwarded_address_counts_from_trusted_proxies_only(
    peer: str, forwarded: list[str], trusted: list[str], client: str
) -> None:
    assert client_address(peer, forwarded, trusted) == client


@pytest.mark.parametrize(
    ("peer", "forwarded", "trusted", "local"),
    [
        ("127.0.0.1", [], [], True),
        ("::1", [], [], True),
        ("10.0.0.1", [], [], False),
        ("127.0.0.1", ["6.6.6.6"], ["127.0.0.1"], False),
        ("127.0.0.1", ["127.0.0.1"], [], False),
        ("127.0.0.1", ["garbage"], ["127.0.0.1"], False),
        ("10.0.0.1", ["127.0.0.1"], [], False),
        ("10.0.0.1", ["127.0.0.1"], ["10.0.0.1"], True),
    ],
)
def test_what_a_proxy_brings_is_not_local(
    peer: str, forwarded: list[str], trusted: list[str], local: bool
) -> None:
    assert is_local(peer, forwarded, trusted) is local
