"""`hsdns rule [CODE|NAME]`: describes a rule of `hsdns lint`, or lists all rules.

Path: argv -> here -> rules/rule.py -> standard output.

`-config FILE` of `hsdns lint` and `hsdns doctor`: the file of silences:
Rule: the default is .hsdns.yaml in the working directory, if it exists.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from hsdns.cli.command import ANY, OUTPUT, Command, Flag, FlagError, columns, flag, say, say_json

if TYPE_CHECKING:
    from hsdns.rules.silence import SilencePattern

# An end of line within a paragraph of a page, or a block of code, where each end of line stays.
_WRAPPED: Final = re.compile(r"(^```.*?^```)|(?<=\S)\n *(?=[\w`(\[\"'])(?!```)", re.M | re.S)
LEVEL: Final = Flag.of(
    "lowest level to show: error, warning (default) or note",
    "LEVEL",
    choices=("error", "warning", "note"),
)
PREVIEW: Final = Flag.of("also check preview rules, which may still change (hsdns rule marks them)")


class Rule(Command):
    """Shows the page of a rule, or lists the rules."""

    name = "rule"
    forms = "[CODE|NAME] [FLAG...]"
    most_words = ANY

    o: str = flag("text", OUTPUT, help="format: text, the page in Markdown (default), or json")

    def run(self) -> int:
        """Show it."""
        from hsdns.rules.rule import RETIRED, find_rule, rules

        if len(self.words) > 1:
            raise FlagError(
                f'hsdns rule takes one rule, also found "{self.words[1]}"; without one it lists them'
            )
        try:
            found = [find_rule(each) for each in self.words] or list(rules().values())
        except ValueError as error:
            raise FlagError(str(error)) from None
        if self.o == "json":
            listed = [_as_json(each, with_page=bool(self.words)) for each in found]
            say_json(listed[0] if self.words else listed)
        elif self.words:
            text = _WRAPPED.sub(lambda each: each[1] or " ", found[0].text)
            say(*(text if columns() else found[0].text).rstrip("\n").split("\n"), fits=True)
        else:
            for each in found:
                preview = " (preview)" if each.is_preview else ""
                say(f"{each.code}  {each.level:<7}  {each.title}{preview}", fits=True)
            say(*(f"{code}  retired  {why}" for code, why in RETIRED.items()), fits=True)
        return 0


def _as_json(rule: Any, *, with_page: bool) -> dict[str, object]:
    head = {
        "code": rule.code,
        "name": rule.name,
        "title": rule.title,
        "level": rule.level,
        "state": rule.state,
        "repaired": rule.is_repaired,
        "page": rule.page,
    }
    if not with_page:
        return head
    titles = ("Why", "See it by hand", "Fix", "Sources")
    sections = {title.lower().replace(" ", "_"): rule.section(title) for title in titles}
    return {**head, "what": rule.what, **sections}


NAME: Final = ".hsdns.yaml"
FLAG: Final = Flag.of(f"file of silences (default: {NAME} in the working folder)", "FILE")


def read_silences(config: str | None) -> tuple[str, list[SilencePattern]]:
    """The path of the file, empty if there is none, and its entries; raise FlagError."""
    from hsdns.rules.silence import read_silence_file

    path = NAME if config is None else config
    try:
        with open(path, "rb") as file:
            return path, read_silence_file(path, file.read())
    except FileNotFoundError:
        if config is None:
            return "", []
        raise FlagError(f"--config {path}: there is no such file; correct the path") from None
    except OSError as error:
        raise FlagError(f"{path}: cannot read it: {error.strerror or error}") from None
    except ValueError as error:
        raise FlagError(str(error)) from None


def is_everything(paths: Sequence[str], path: str) -> bool:
    """Whether the paths include the folder of the file, so that everything it can apply to is checked."""
    folder = os.path.dirname(os.path.realpath(path))
    tops = [os.path.realpath(each) for each in paths if os.path.isdir(each)]
    return any(folder == top or folder.startswith(os.path.join(top, "")) for top in tops)
