"""`hsdns rule [CODE|NAME]`: describes a rule of `hsdns lint`, or lists all rules.

Path: argv -> here -> rules/rule.py -> standard output.
"""

from __future__ import annotations

from typing import Any, Final

from hsdns.cli.flags import Flag, FlagError, leading_words, output_format, parse_flags, usage
from hsdns.cli.output import complain, say, say_text

PREVIEW: Final = Flag(bool, "check new rules too, which may still change (hsdns rule marks them)")
FLAGS: Final = {
    "o": Flag(str, "format: text, the page in Markdown (default), or json", "FORMAT"),
    "h": Flag(bool, "show this help"),
    "help": Flag(bool, "show this help", alias_of="h"),
}


def run(words: list[str]) -> int:
    """Run `hsdns rule`; return the exit status."""
    from hsdns.rules.rule import RETIRED, find_rule, rules

    plain, rest = leading_words(words)
    try:
        flags = parse_flags(rest, FLAGS, command="hsdns rule")
        if flags.get("h"):
            say_text(f"Usage: hsdns rule [CODE|NAME] [FLAG...]\n\nFlags:\n{usage(FLAGS)}")
            return 0
        output = output_format(flags)
        if len(plain) > 1:
            raise FlagError(
                f'hsdns rule shows one rule, found also "{plain[1]}"; without one it lists them'
            )
        found = [find_rule(plain[0])] if plain else list(rules().values())
    except (FlagError, ValueError) as error:
        complain(error)
        return 2
    if output == "json":
        import json

        listed = [_as_json(each, with_page=bool(plain)) for each in found]
        say_text(json.dumps(listed[0] if plain else listed, indent=2, ensure_ascii=False))
    elif plain:
        say_text(found[0].text)
    else:
        for each in found:
            say(
                f"{each.code} {each.level:<7} {each.title}{' (preview)' if each.is_preview else ''}"
            )
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
