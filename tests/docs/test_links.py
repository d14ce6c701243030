"""Every link inside the documentation leads somewhere."""

import re
from pathlib import Path

import pytest
from tests.docs.snippets import CLIENT_README, DOCS, PAGES, README, ROOT

LOOKED_AT = (
    *PAGES,
    ROOT / "protocol" / "README.md",
    ROOT / "bridge" / "README.md",
    CLIENT_README,
    ROOT / "CONTRIBUTING.md",
)

CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(\s*(?P<inline>[^)\s]+)\s*\)|(?:src|srcset|href)=\"(?P<html>[^\"]+)\"")
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.MULTILINE)
AWAY = re.compile(r"[a-z]+:|//")


def links_of(page: Path) -> list[str]:
    """The links of a page that stay in the repository."""
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    found = [m["inline"] or m["html"] for m in LINK.finditer(text)]
    return [link for link in found if not AWAY.match(link)]


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    seen: dict[str, int] = {}
    anchors = set()
    text = re.sub(
        r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    for heading in HEADING.findall(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        anchors.add(f"{anchor}-{count}" if count else anchor)
    return anchors


def leads_somewhere(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if anchor and target.suffix == ".md":
        return target.exists() and anchor in anchors_of(target)
    return target.exists()


@pytest.mark.parametrize("page", LOOKED_AT, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_an_anchor_of_it(page: Path) -> None:
    assert [link for link in links_of(page) if not leads_somewhere(page, link)] == []


def test_every_page_of_the_documentation_is_in_its_index() -> None:
    index = DOCS / "README.md"
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in links_of(index)}
    assert {page for page in PAGES if page not in (README, index)} - linked == set()


def test_the_readme_has_links_to_look_at() -> None:
    assert len(links_of(README)) >= 10


def test_a_heading_becomes_the_anchor_that_github_makes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# The page that `--static` serves\n## `run.start`\n## Twice\n## Twice\n")
    assert anchors_of(page) == {
        "the-page-that---static-serves",
        "runstart",
        "twice",
        "twice-1",
    }
