"""Runs all checks over objects: returns the findings, without silenced ones.

Path: cli/lint.py -> here -> output/.
Rule 1: findings are sorted by file, line and column.
Rule 2: a silence without effect or without a reason is itself a finding.
Rule 3: without `preview`, preview rules find nothing, and silences of them are not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from hsdns.corefile.tree import did_you_mean
from hsdns.rules.check import CHECKS
from hsdns.rules.checks import MODULES
from hsdns.rules.finding import Edit, Finding, Remark
from hsdns.rules.objects import Objects
from hsdns.rules.rule import previews, rules
from hsdns.rules.silence import Silence
from hsdns.rules.silence_file import NO_FILE, SilenceFile, SilencePattern

WITHOUT_EFFECT: Final = "HS003"
WITHOUT_REASON: Final = "HS004"


class Judgement(NamedTuple):
    """The findings, and those that silences removed."""

    findings: list[Finding]
    silenced: list[Finding]


def judge(
    objects: Objects,
    silences: Iterable[Silence] = (),
    filed: SilenceFile = NO_FILE,
    *,
    preview: bool = False,
) -> Judgement:
    """Run all checks, with `preview` also those of new rules; `filed` has the silences of a file."""
    assert MODULES, "their import enters the checks"
    known = rules()
    left_out = frozenset() if preview else previews()
    found = [
        Finding(known[code], remark.level or known[code].level, remark)
        for code, function in CHECKS.items()
        if code not in left_out
        for remark in function(objects)
    ]
    listed = [each for each in silences if each.code not in left_out or not each.reason]
    patterns = [each for each in filed.patterns if each.code not in left_out or not each.reason]
    used: set[Silence | SilencePattern] = set()
    shown, silenced = [], []
    for each in found:
        silence = next((one for one in listed if _is_about(one, each, objects)), None)
        pattern = next((one for one in patterns if one.silences(each.rule.code, each.remark)), None)
        used |= {one for one in (silence, pattern) if one is not None}
        if silence is not None:
            silenced.append(each._replace(silenced=silence.reason))
        elif pattern is not None:
            silenced.append(each._replace(silenced=pattern.reason, is_outside=True))
        else:
            shown.append(each)
    remarks = [
        *_of_silences([each for each in listed if each not in used]),
        *_of_patterns([each for each in patterns if each not in used], filed, objects),
    ]
    for code, remark in remarks:
        shown.append(Finding(known[code], known[code].level, remark))
    return Judgement(sorted(shown, key=_order), silenced)


def _order(finding: Finding) -> tuple[object, ...]:
    return (*finding.remark.position, finding.rule.code, finding.message)


def _is_about(silence: Silence, finding: Finding, objects: Objects) -> bool:
    remark = finding.remark
    if silence.code != finding.rule.code or silence.at.file != remark.position.file:
        return False
    if not silence.reason:
        return False
    if silence.place:
        return silence.place == remark.place
    if silence.line == remark.position.line:
        return True
    return any(
        str(each) == remark.place
        and each.file == silence.at.file
        and each.at("").line == silence.line
        for each in objects.manifests
        if remark.place
    )


def _of_silences(unused: Iterable[Silence]) -> Iterator[tuple[str, Remark]]:
    for each in unused:
        edit = None if each.place else Edit(each.start, each.end, "")
        if each.code not in rules():
            hint = did_you_mean(each.code, rules()) or "; write # hsdns: ignore CODE REASON"
            yield (
                WITHOUT_EFFECT,
                Remark(each.at, each.place, "", f'there is no rule "{each.code}"{hint}'),
            )
        elif not each.reason:
            sentence = f"{each.code} is silenced without a reason, so it is not; write the reason after the code"
            yield WITHOUT_REASON, Remark(each.at, each.place, "", sentence)
        else:
            sentence = (
                f"nothing here is found by {each.code}, so the silence has no effect; remove it"
            )
            yield WITHOUT_EFFECT, Remark(each.at, each.place, "", sentence, edit=edit)


def _of_patterns(
    unused: Iterable[SilencePattern], filed: SilenceFile, objects: Objects
) -> Iterator[tuple[str, Remark]]:
    for each in unused:
        if each.code not in rules():
            hint = did_you_mean(each.code, rules()) or "; hsdns rule lists them"
            yield WITHOUT_EFFECT, Remark(each.at, "", "", f'there is no rule "{each.code}"{hint}')
        elif not each.reason:
            sentence = (
                f"{each.code} is silenced without a reason, so it is not; write one as reason"
            )
            yield WITHOUT_REASON, Remark(each.at, "", "", sentence)
        elif filed.is_due(each, objects):
            parts = [f'object "{each.object}"' if each.object else ""]
            parts.append(f'path "{each.path}"' if each.path else "")
            sentence = (
                f"nothing is found by {each.code} for {' and '.join(filter(None, parts))}, "
                "so the silence has no effect; remove it"
            )
            yield WITHOUT_EFFECT, Remark(each.at, "", "", sentence)
