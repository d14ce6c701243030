"""What a GET on the socket's port is answered with: health, metrics, the page's library, the demo.

Owns the routes and which files may leave this machine. Deliberately does not know sockets, nor who
asks: `local` and the checks of `Host` come from above (`websocket`), and the answer goes back as
plain data. *Source:* protocol.md 9.

A file is served when each of these holds: every segment of its path is an ordinary name, its ending
is on the list, it lies under the root after all links are followed, and it is small.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes

__all__ = ["FILE_BYTES_MAX", "Answer", "Site", "plain"]

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Files are read in one go and kept; a larger one would hold the loop, and is not found."""

_CACHED_FILES_MAX: Final = 256
"""The library and a demo have a few dozen; beyond this the cache starts anew."""

_CLIENT_TYPES: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".d.ts": "text/plain; charset=utf-8",
    ".map": "application/json",
}

_STATIC_TYPES: Final = {
    **_CLIENT_TYPES,
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".webp": "image/webp",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
}

_NO_PAGE: Final = (
    "Handspan is here, but no page. It answers WebSockets, and its page's library is at"
    " /client/handspan.js. To have it serve a page of yours: --static DIR.\n"
)

_TEXT: Final = "text/plain; charset=utf-8"

_CLIENT_HEADERS: Final = (
    ("Access-Control-Allow-Origin", "*"),
    ("Cross-Origin-Resource-Policy", "cross-origin"),
)

_STATIC_HEADERS: Final = (
    (
        "Content-Security-Policy",
        "default-src 'self'; connect-src 'self' ws: wss:; object-src 'none'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'",
    ),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "same-origin"),
    ("X-Frame-Options", "DENY"),
)

_LOG = logging.getLogger("handspan.http")


@dataclass(frozen=True, slots=True)
class Answer:
    """A response. For HEAD the body is empty and `Content-Length` still that of a GET."""

    status: HTTPStatus
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class _File:
    stamp: tuple[int, int]
    """Modification time and size; another stamp is another file."""
    etag: str
    body: bytes


class Site:
    """The routes of one server. `client` and `static` are folders; without `static` no demo."""

    def __init__(
        self,
        client: Path,
        static: Path | None,
        draining: Callable[[], bool],
        metrics: Callable[[], str],
        *,
        metrics_open: bool = False,
    ) -> None:
        self._client = client
        self._static = static
        self._draining = draining
        self._metrics = metrics
        self._metrics_open = metrics_open
        self._files: dict[Path, _File] = {}

    def answer(
        self, method: str, target: str, *, local: bool = False, if_none_match: str | None = None
    ) -> Answer:
        """The answer to one request. `target` is the request's, still encoded; `local`: the other
        end is on this machine."""
        if method in ("GET", "HEAD"):
            answer = self._route(target.partition("?")[0], local, if_none_match)
        else:
            answer = plain(HTTPStatus.METHOD_NOT_ALLOWED, (("Allow", "GET, HEAD"),))
        headers = (*answer.headers, ("X-Content-Type-Options", "nosniff"))
        if answer.status is not HTTPStatus.NOT_MODIFIED:
            headers = (*headers, ("Content-Length", str(len(answer.body))))
        body = b"" if method == "HEAD" else answer.body
        return Answer(answer.status, headers, body)

    def _route(self, path: str, local: bool, if_none_match: str | None) -> Answer:
        match path:
            case "/livez":
                return plain(HTTPStatus.OK)
            case "/readyz":
                draining = self._draining()
                return plain(HTTPStatus.SERVICE_UNAVAILABLE if draining else HTTPStatus.OK)
            case "/metrics":
                return self._metrics_answer(local)
        segments = _segments("/index.html" if path == "/" else path)
        if segments is None:
            return plain(HTTPStatus.NOT_FOUND)
        if segments[0] == "client":
            return self._file(
                self._client, segments[1:], _CLIENT_TYPES, _CLIENT_HEADERS, if_none_match
            )
        if self._static is None:
            return plain(HTTPStatus.NOT_FOUND, said=_NO_PAGE if path == "/" else "")
        answer = self._file(self._static, segments, _STATIC_TYPES, _STATIC_HEADERS, if_none_match)
        if answer.status is HTTPStatus.NOT_FOUND and path == "/favicon.ico":
            return Answer(HTTPStatus.NO_CONTENT)  # asked for by the browser, not by the page
        return answer

    def _metrics_answer(self, local: bool) -> Answer:
        if not (local or self._metrics_open):
            return plain(HTTPStatus.FORBIDDEN)
        headers = (
            ("Content-Type", "text/plain; version=0.0.4; charset=utf-8"),
            ("Cache-Control", "no-store"),
        )
        return Answer(HTTPStatus.OK, headers, self._metrics().encode())

    def _file(
        self,
        root: Path,
        segments: list[str],
        types: Mapping[str, str],
        headers: tuple[tuple[str, str], ...],
        if_none_match: str | None,
    ) -> Answer:
        media_type = _media_type(segments[-1], types) if segments else None
        file = self._read(root, segments) if media_type else None
        if file is None or media_type is None:
            return plain(HTTPStatus.NOT_FOUND)
        headers = (*headers, ("Cache-Control", "no-cache"), ("ETag", file.etag))
        if if_none_match is not None and _matches(if_none_match, file.etag):
            return Answer(HTTPStatus.NOT_MODIFIED, headers)
        return Answer(HTTPStatus.OK, (("Content-Type", media_type), *headers), file.body)

    def _read(self, root: Path, segments: list[str]) -> _File | None:
        """The file, from memory when it has not changed; None when there is none to be served."""
        try:
            path = root.joinpath(*segments).resolve(strict=True)
            if not path.is_relative_to(root.resolve()) or not path.is_file():
                return None
            status = path.stat()
            if status.st_size > FILE_BYTES_MAX:
                return None
            stamp = (status.st_mtime_ns, status.st_size)
            known = self._files.get(path)
            if known is not None and known.stamp == stamp:
                return known
            body = path.read_bytes()
        except (OSError, ValueError, RuntimeError):  # RuntimeError: links in a circle
            return None
        file = _File(stamp, f'"{hashlib.sha256(body).hexdigest()[:32]}"', body)
        if len(self._files) >= _CACHED_FILES_MAX:
            self._files.clear()
        self._files[path] = file
        return file


def plain(
    status: HTTPStatus, headers: tuple[tuple[str, str], ...] = (), *, said: str = ""
) -> Answer:
    """A status and its phrase as text, with what more is `said`; not to be kept by anybody."""
    text = ("ok\n" if status is HTTPStatus.OK else f"{status.phrase.lower()}\n") + said
    return Answer(
        status,
        (("Content-Type", _TEXT), ("Cache-Control", "no-store"), *headers),
        text.encode(),
    )


def _segments(path: str) -> list[str] | None:
    """The names in a path, decoded once; None when one of them is not an ordinary name.

    Not ordinary: empty, hidden, `.` or `..`, with a slash, backslash, colon or control character in
    it, or not UTF-8. So no two spellings of a path lead out of a root, on any system.
    """
    if not path.startswith("/"):
        return None
    names: list[str] = []
    for segment in path[1:].split("/"):
        try:
            name = unquote_to_bytes(segment).decode()
        except UnicodeDecodeError:
            return None
        if not name or name.startswith(".") or not name.isprintable() or set(name) & set("/\\:"):
            return None
        names.append(name)
    return names


def _media_type(name: str, types: Mapping[str, str]) -> str | None:
    """By the ending; `.ts` alone is none, `.d.ts` is."""
    for ending, media_type in types.items():
        if name.endswith(ending) and name != ending:
            return media_type
    return None


def _matches(if_none_match: str, etag: str) -> bool:
    """The weak comparison of RFC 9110, 13.1.2."""
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in tags or etag in tags
