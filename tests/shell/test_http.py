"""What a GET is answered with, and what must never leave the machine."""

import os
from http import HTTPStatus
from pathlib import Path

import pytest

from handspan.shell.http import FILE_BYTES_MAX, Answer, Site

FILES = {
    "client/handspan.js": "export {};",
    "client/core/frames.js": "// frames",
    "client/handspan.d.ts": "export {};",
    "client/package.json": "{}",
    "client/README.md": "# client",
    "client/handspan.js.map": "{}",
    "client/secret.py": "SECRET",
    "client/plain.ts": "SECRET",
    "client/.hidden.js": "SECRET",
    "client/.js": "SECRET",
    "client/.git/config.js": "SECRET",
    "client/two words.js": "// space",
    "demo/index.html": "<!doctype html>",
    "demo/app.js": "// app",
    "demo/style.css": "body {}",
    "demo/notes.sqlite": "SECRET",
    "outside.js": "SECRET",
    "client-private/x.js": "SECRET",
}


class World:
    """A site over a folder of files; the outside holds what must not be served."""

    def __init__(self, root: Path) -> None:
        for name, text in FILES.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.root = root
        self.client = root / "client"
        self.draining = False

    def site(self, *, static: bool = True, metrics_open: bool = False) -> Site:
        return Site(
            self.client,
            self.root / "demo" if static else None,
            lambda: self.draining,
            lambda: "handspan_runs 1\n",
            metrics_open=metrics_open,
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def header(answer: Answer, name: str) -> str | None:
    values = [value for key, value in answer.headers if key == name]
    assert len(values) <= 1
    return values[0] if values else None


def get(site: Site, target: str, *, local: bool = False) -> tuple[int, bytes]:
    answer = site.answer("GET", target, local=local)
    return answer.status, answer.body


# ---- health and metrics ----


def test_livez_and_readyz_tell_alive_from_ready(world: World) -> None:
    site = world.site()
    assert get(site, "/livez") == (200, b"ok\n")
    assert get(site, "/readyz") == (200, b"ok\n")
    world.draining = True
    assert get(site, "/livez")[0] == 200
    assert get(site, "/readyz")[0] == 503


@pytest.mark.parametrize(
    ("local", "is_open", "status"),
    [(True, False, 200), (False, False, 403), (True, True, 200), (False, True, 200)],
)
def test_metrics_are_for_this_machine_unless_opened(
    world: World, local: bool, is_open: bool, status: int
) -> None:
    answer = world.site(metrics_open=is_open).answer("GET", "/metrics", local=local)
    assert answer.status == status
    assert (b"handspan_runs 1" in answer.body) is (status == 200)


# ---- the page's library ----


@pytest.mark.parametrize(
    ("target", "media_type"),
    [
        ("/client/handspan.js", "text/javascript; charset=utf-8"),
        ("/client/handspan.js?v=1", "text/javascript; charset=utf-8"),
        ("/client/core/frames.js", "text/javascript; charset=utf-8"),
        ("/client/h%61ndspan.js", "text/javascript; charset=utf-8"),
        ("/client/two%20words.js", "text/javascript; charset=utf-8"),
        ("/client/handspan.d.ts", "text/plain; charset=utf-8"),
        ("/client/package.json", "application/json"),
        ("/client/README.md", "text/markdown; charset=utf-8"),
        ("/client/handspan.js.map", "application/json"),
    ],
)
def test_the_library_may_be_imported_from_any_origin(
    world: World, target: str, media_type: str
) -> None:
    answer = world.site().answer("GET", target)
    assert answer.status == HTTPStatus.OK
    assert header(answer, "Content-Type") == media_type
    assert header(answer, "Access-Control-Allow-Origin") == "*"
    assert header(answer, "Cache-Control") == "no-cache"
    assert header(answer, "X-Content-Type-Options") == "nosniff"
    assert header(answer, "Content-Length") == str(len(answer.body))


@pytest.mark.parametrize(
    "target",
    [
        "/client",
        "/client/",
        "/client/core",
        "/client/core/",
        "/client/missing.js",
        "/client/secret.py",
        "/client/plain.ts",
        "/client/.hidden.js",
        "/client/.js",
        "/client/.git/config.js",
        "/client/../outside.js",
        "/client/%2e%2e/outside.js",
        "/client/%2E%2E/outside.js",
        "/client/.%2e/outside.js",
        "/client/..%2foutside.js",
        "/client/%2e%2e%2foutside.js",
        "/client/%252e%252e/outside.js",
        "/client/..\\outside.js",
        "/client/..%5coutside.js",
        "/client/%2e%2e%5coutside.js",
        "/client//handspan.js",
        "//client/handspan.js",
        "/client/./handspan.js",
        "/client/core/../handspan.js",
        "/client-private/x.js",
        "/client/handspan.js%00",
        "/client/handspan.js%00.map",
        "/client/%00handspan.js",
        "/client/handspan.js%0a",
        "/client/%ff.js",
        "/client/c:handspan.js",
        "/client/handspan.js::$DATA",
        "/client/handspan.js#x",
        "/client/" + "a" * 5000 + ".js",
        "client/handspan.js",
        "http://localhost/client/handspan.js",
        "*",
        "",
        "/outside.js",
        "/demo/index.html",
        "/notes.sqlite",
    ],
)
def test_nothing_else_is_found(world: World, target: str) -> None:
    status, body = get(world.site(), target, local=True)
    assert status == 404
    assert b"SECRET" not in body


def test_an_absolute_path_does_not_replace_the_root(world: World) -> None:
    outside = f"{world.root}/outside.js"
    for target in (f"/client/{outside}", f"/client/{outside.replace('/', '%2f')}"):
        assert get(world.site(), target)[0] == 404


def test_links_out_of_the_root_are_not_followed(world: World) -> None:
    (world.client / "out.js").symlink_to(world.root / "outside.js")
    (world.client / "folder").symlink_to(world.root / "client-private")
    (world.client / "circle.js").symlink_to(world.client / "circle.js")
    (world.client / "inside.js").symlink_to(world.client / "handspan.js")
    site = world.site()
    assert get(site, "/client/out.js")[0] == 404
    assert get(site, "/client/folder/x.js")[0] == 404
    assert get(site, "/client/circle.js")[0] == 404
    assert get(site, "/client/inside.js") == (200, b"export {};")


def test_what_is_no_file_or_too_large_is_not_found(world: World) -> None:
    os.mkfifo(world.client / "pipe.js")
    (world.client / "folder.js").mkdir()
    with (world.client / "large.js").open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    site = world.site()
    for name in ("pipe.js", "folder.js", "large.js"):
        assert get(site, f"/client/{name}")[0] == 404


def test_a_changed_file_is_read_again_and_an_unchanged_one_is_not_sent_again(world: World) -> None:
    site = world.site()
    first = site.answer("GET", "/client/handspan.js")
    etag = header(first, "ETag")
    assert etag is not None
    for tags in (etag, f'"x", W/{etag}', "*"):
        again = site.answer("GET", "/client/handspan.js", if_none_match=tags)
        assert (again.status, again.body) == (304, b"")
        assert header(again, "ETag") == etag
        assert header(again, "Content-Length") is None
    (world.client / "handspan.js").write_text("export { now };")
    changed = site.answer("GET", "/client/handspan.js", if_none_match=etag)
    assert (changed.status, changed.body) == (200, b"export { now };")


# ---- the demo ----


def test_the_demo_is_served_under_a_strict_policy(world: World) -> None:
    site = world.site()
    for target in ("/", "/index.html", "/?x=1"):
        answer = site.answer("GET", target)
        assert (answer.status, answer.body) == (200, b"<!doctype html>")
        policy = header(answer, "Content-Security-Policy") or ""
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert header(answer, "Access-Control-Allow-Origin") is None
        assert header(answer, "X-Frame-Options") == "DENY"
    assert get(site, "/style.css") == (200, b"body {}")
    assert get(site, "/../outside.js")[0] == 404


def test_without_a_demo_there_is_no_root(world: World) -> None:
    site = world.site(static=False)
    assert get(site, "/")[0] == 404
    assert get(site, "/app.js")[0] == 404
    assert get(site, "/client/handspan.js")[0] == 200


# ---- methods ----


@pytest.mark.parametrize("target", ["/", "/livez", "/client/handspan.js", "/missing"])
def test_head_is_get_without_a_body(world: World, target: str) -> None:
    site = world.site()
    whole, head = site.answer("GET", target), site.answer("HEAD", target)
    assert (head.status, head.headers, head.body) == (whole.status, whole.headers, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "get", ""])
def test_other_methods_are_not_allowed(world: World, method: str) -> None:
    answer = world.site().answer(method, "/livez")
    assert answer.status == 405
    assert header(answer, "Allow") == "GET, HEAD"
