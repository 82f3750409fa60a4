"""The output of `hsdns doctor`: first what fails now, then the rest, what has passed, and what could not be checked.

Path: cli/doctor.py -> here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from hsdns.rules.diagnosis import Diagnosis
from hsdns.rules.mesh import TOOL
from hsdns.rules.output import as_json as finding_as_json
from hsdns.rules.rule import Finding
from hsdns.wire import counted

# Reasons that none of our rules needs, by their word.
OTHERS: Final = {
    "istioctl": "the configuration of Istio",
    "from-pod": "what DNS servers answer to the Pod",
}
_HEADS: Final = {
    "error": "Names that fail now:",
    "warning": "Names that will fail:",
    "note": "What costs queries, or surprises:",
}


def as_lines(found: Diagnosis, below: int, source: str) -> Iterator[str]:
    """The diagnosis for a terminal; `below` findings are under the level."""
    for level, head in _HEADS.items():
        listed = [each for each in found.findings if each.level == level]
        if listed:
            yield head
            for each in listed:
                yield f"  {each.rule.code} {each.message}"
            yield ""
    if found.mesh:
        yield f"{TOOL} finds:"
        for message in found.mesh:
            yield f"  {message.level} {message.code} {message.message}: {message.page}"
        yield ""
    pages = {each.rule.code: each.rule for each in found.findings}
    for code, rule in sorted(pages.items()):
        yield f"{code} {rule.title}: {rule.page}"
    if pages:
        yield ""
    for sentence in found.asked:
        yield f"asked: {sentence}"
    if found.asked:
        yield ""
    for plural, reason in found.reasons.items():
        codes = found.unchecked.get(plural, ())
        if codes:
            yield f"not checked: {', '.join(codes)}: {plural}: {reason}"
        elif plural in OTHERS:
            yield f"not checked: {OTHERS[plural]}: {reason}"
    if any(found.unchecked.values()) or OTHERS.keys() & found.reasons.keys():
        yield ""
    hidden = f", {below} more below the -level" if below else ""
    hidden += f", {len(found.mesh)} of istioctl" if found.mesh else ""
    hidden += f", {len(found.silenced)} silenced" if found.silenced else ""
    yield (
        f"{counted(len(found.findings), 'finding', 'no')}{hidden}, {counted(len(found.passed), 'rule', 'no')} passed, "
        f"in {counted(found.objects, 'object', 'no')} of {source}"
    )


def as_json(found: Diagnosis, below: int) -> str:
    """The diagnosis as JSON."""
    value = {
        "findings": [_finding(each) for each in found.findings],
        "silenced": [{**_finding(each), "reason": each.silenced} for each in found.silenced],
        "below": below,
        "passed": found.passed,
        "asked": found.asked,
        "istioctl": [each.as_json() for each in found.mesh],
        "unchecked": [
            {"resource": plural, "reason": reason, "rules": list(found.unchecked.get(plural, ()))}
            for plural, reason in found.reasons.items()
        ],
        "objects": found.objects,
        "unread": found.problems,
    }
    return json.dumps(value, indent=2, ensure_ascii=False)


def _finding(found: Finding) -> dict[str, object]:
    # The position in the dump is useless.
    left_out = ("file", "line", "column", "repaired")
    return {key: value for key, value in finding_as_json(found).items() if key not in left_out}
