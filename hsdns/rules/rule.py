"""A rule: its code, title, level and page, read from `pages/CODE-NAME.md`.

Path: lint/rule.py, judging.py, output.py -> here -> hsdns/rules/pages.
Rule 1: the page is the only definition of a rule; the site, `hsdns rule`, SARIF and the tests read it.
Rule 2: a code is never reused; RETIRED has those of removed rules.
Rule 3: a level states the consequence.  error: a name fails, or is wrong, for some client now.  warning: it will be,
        under a condition that the page states.  note: it costs queries, or is surprising.
Rule 4: a new rule is a preview: it is checked with -preview only, and may still change or be removed.  Its page says so
        below the level, until the rule has been tried on manifests of other projects without a false alarm.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from hsdns.corefile.tree import Position, did_you_mean

LEVELS: Final = ("error", "warning", "note")
SITE: Final = "https://hsdns.github.io/hsdns/"
STABLE: Final = "stable"
PREVIEW: Final = "preview"
RETIRED: Final[dict[str, str]] = {}  # removed codes: what the rule found, and why it was removed
CODE: Final = re.compile(r"HS[0-9]{3}")
_HEAD: Final = re.compile(
    r"# (HS\d{3}): (.+)\n\nLevel: (\w+)\n(?:\nState: (preview), found with `--preview` only\n)?"
)
_SECTION: Final = re.compile(r"^## (.+)\n", re.MULTILINE)
_REPAIRS: Final = "`hsdns lint --fix` does this"


class Rule(NamedTuple):
    """One rule; `name` is from its file name, `text` the whole page in Markdown, `state` one of the words above."""

    code: str
    name: str
    title: str
    level: str
    text: str
    state: str = STABLE

    @property
    def page(self) -> str:
        """The URL of its page."""
        return f"{SITE}rules/{self.code}.html"

    @property
    def is_repaired(self) -> bool:
        """Whether `hsdns lint -fix` repairs its findings."""
        return _REPAIRS in self.text

    @property
    def what(self) -> str:
        """The first paragraphs: what the rule is about."""
        head = _HEAD.match(self.text)
        assert head is not None, "rules() has looked"
        return _SECTION.split(self.text[head.end() :])[0].strip()

    @property
    def is_preview(self) -> bool:
        """Whether it is checked with -preview only."""
        return self.state == PREVIEW

    def section(self, title: str) -> str:
        """A section of the page, empty if there is none."""
        parts = _SECTION.split(self.text)
        return dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True)).get(title, "")


@cache
def rules() -> dict[str, Rule]:
    """All rules by code, in order; raise ValueError for a page with an invalid beginning."""
    folder = files("hsdns.rules") / "pages"
    pages = sorted(
        (each for each in folder.iterdir() if each.name.endswith(".md")), key=lambda each: each.name
    )
    return {
        rule.code: rule
        for rule in (read_page(each.name, each.read_text("utf-8")) for each in pages)
    }


def find_rule(word: str) -> Rule:
    """The rule with a code, in any case, or a name; raise ValueError that suggests the nearest one."""
    by_word = {key: each for each in rules().values() for key in (each.code, each.name)}
    found = by_word.get(word.upper()) or by_word.get(word.lower())
    if found is not None:
        return found
    if word.upper() in RETIRED:
        raise ValueError(f"rule {word.upper()} no longer exists: {RETIRED[word.upper()]}")
    hint = did_you_mean(word.upper() if word[:2].upper() == "HS" else word.lower(), by_word)
    raise ValueError(f'there is no rule "{word}"{hint or "; hsdns rule lists them"}')


def previews() -> frozenset[str]:
    """The codes of the rules that are checked with -preview only."""
    return frozenset(code for code, rule in rules().items() if rule.is_preview)


def level_at_least(level: str, lowest: str) -> bool:
    """Whether a level is at least as serious as another."""
    return LEVELS.index(level) <= LEVELS.index(lowest)


def read_page(file_name: str, text: str) -> Rule:
    """The rule of a page; raise ValueError if its beginning is invalid."""
    head = _HEAD.match(text)
    code, _, name = file_name.removesuffix(".md").partition("-")
    if head is None or head[1] != code or head[3] not in LEVELS:
        raise ValueError(f'{file_name}: it must begin with "# {code}: TITLE" and "Level: LEVEL"')
    return Rule(code, name, head[2], head[3], text, head[4] or STABLE)


# A finding: a rule, the position, the object, the field, what is wrong and what to do; and how to repair it.


class Edit(NamedTuple):
    """A replacement of the text from `start` to before `end`; both are in the same file."""

    start: Position
    end: Position
    text: str


class Remark(NamedTuple):
    """The result of a check: `place` is an object such as `Service shop/db`, `field` a path in it, or both are empty.

    `level` is by default that of the rule, `todo` what to do if the sentence does not say it.
    """

    position: Position
    place: str
    field: str
    sentence: str
    level: str = ""
    edit: Edit | None = None
    todo: str = ""


class Finding(NamedTuple):
    """A remark with its rule; `silenced` is the reason why it is not shown.

    `is_outside` if the reason is in a file of silences, not next to the object.
    """

    rule: Rule
    level: str
    remark: Remark
    silenced: str = ""
    is_outside: bool = False

    @property
    def at(self) -> Position:
        """Its position."""
        return self.remark.position

    @property
    def page(self) -> str:
        """The page of its rule."""
        return self.rule.page

    @property
    def label(self) -> str:
        """Code and title of its rule."""
        return f"{self.rule.code} {self.rule.title}"

    @property
    def case(self) -> tuple[str, str]:
        """The name and the class of a test case for it."""
        return f"{self.rule.code} {self.at.file}:{self.at.line}", self.at.file

    @property
    def message(self) -> str:
        """The sentence, with its object and field, and what to do."""
        remark = self.remark
        parts = [
            remark.place,
            remark.field,
            "; ".join(filter(None, (remark.sentence, remark.todo))),
        ]
        return ": ".join(part for part in parts if part)

    def __str__(self) -> str:
        return f"{self.remark.position}: {self.level} {self.rule.code} {self.message}"
