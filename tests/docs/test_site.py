"""The site: its front page, its navigation, and words that a page explains before it uses them."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FRONT = (DOCS / "index.md").read_text()


class Loader(yaml.SafeLoader):
    """Leaves out `!relative`, a tag of MkDocs."""


Loader.add_constructor("!relative", lambda loader, node: None)
SITE: dict[str, Any] = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)


def place(page: str) -> int:
    """The place of a page in the navigation; one within a group has that of the group."""
    return next(at for at, entry in enumerate(SITE["nav"]) if page in str(entry))


@pytest.mark.parametrize("page", ["quickstart", "compatibility", "performance", "sources"])
def test_page_is_above_the_plugins_in_the_navigation(page: str) -> None:
    assert 0 < place(f"{page}.md") < place("plugins/index.md")


def test_groups_of_the_navigation_fold() -> None:
    assert {"navigation.sections", "navigation.expand"}.isdisjoint(SITE["theme"]["features"])
    assert isinstance(SITE["nav"][place("plugins/acl.md")]["Plugins"], list)


def test_the_front_page_says_what_it_is_how_to_start_and_shows_it_before_all_else() -> None:
    opening, *_ = FRONT.split("\n## ")
    _, what, lines, *_ = opening.split("\n\n")
    assert len(re.findall(r"\.(?=\s|$)", what)) == 1
    assert what.startswith("hsdns is a DNS server for Kubernetes")
    title, *commands, end = lines.splitlines()
    assert (title[:3], len(commands), end) == ("```", 3, "```")
    assert "](terminal.svg)" in opening


def test_the_front_page_has_four_things_and_each_says_where_it_is_shown() -> None:
    section = FRONT.partition("## What no other server does\n")[2].partition("\n## ")[0]
    cards = section.split("\n-   **")[1:]
    assert len(cards) >= 4
    assert all("](" in card for card in cards)


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", DOCS / "index.md", DOCS / "quickstart.md"],
    ids=lambda page: page.name,
)
def test_the_consul_lab_is_explained_with_its_first_name(page: Path) -> None:
    """The paragraph that introduces it says what it is, and no paragraph of text names its Service before."""
    paragraphs = [
        " ".join(each.split())
        for each in page.read_text().split("\n\n")
        if "```" not in each and "`consul-server" in each
    ]
    assert re.search(r"\*consul lab\*.*three (servers|Pods).*headless Service", paragraphs[0])


def test_every_style_sheet_of_the_site_exists() -> None:
    assert SITE["extra_css"]
    assert all((DOCS / name).is_file() for name in SITE["extra_css"])
