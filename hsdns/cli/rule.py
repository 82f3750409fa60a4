"""`hsdns rule [CODE|NAME]`: describes a rule of `hsdns lint`, or lists all rules.

Path: argv -> here -> rules/rule.py -> standard output.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from hsdns.cli.command import ANY, Command, flag
from hsdns.cli.flags import FORMATS, FlagError
from hsdns.cli.output import say, say_text

LEVEL: Final = flag(
    "lowest level that is shown: error, warning (default) or note",
    "LEVEL",
    choices=("error", "warning", "note"),
)
PREVIEW: Final = flag("check new rules too, which may still change (hsdns rule marks them)")


class Rule(Command):
    """Shows the page of a rule, or lists the rules."""

    name = "rule"
    forms = "[CODE|NAME] [FLAG...]"
    most_words = ANY

    o: Annotated[
        str,
        flag("format: text, the page in Markdown (default), or json", "FORMAT", choices=FORMATS),
    ] = "text"

    def run(self) -> int:
        """Show it."""
        from hsdns.rules.rule import RETIRED, find_rule, rules

        if len(self.words) > 1:
            raise FlagError(
                f'hsdns rule shows one rule, found also "{self.words[1]}"; without one it lists them'
            )
        try:
            found = [find_rule(each) for each in self.words] or list(rules().values())
        except ValueError as error:
            raise FlagError(str(error)) from None
        if self.o == "json":
            import json

            listed = [_as_json(each, with_page=bool(self.words)) for each in found]
            say_text(json.dumps(listed[0] if self.words else listed, indent=2, ensure_ascii=False))
        elif self.words:
            say_text(found[0].text)
        else:
            for each in found:
                preview = " (preview)" if each.is_preview else ""
                say(f"{each.code} {each.level:<7} {each.title}{preview}")
            for code, why in RETIRED.items():
                say(f"{code} retired {why}")
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
