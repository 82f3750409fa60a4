"""A fault as a test writes it: a rule as text, or its action with keywords -> the words of a rule.

Path: cluster.fault() -> here -> hsdns/faults/words.py -> fault.py.
Rule 1: the server evaluates the keywords in this order, `share` last, so that `share=0.5` is half of the queries that
        all other keywords match.
Rule 2: a name is written as in a pod (names.py), unless the rule is text.
Rule 3: a rule without a seed gets its number in the cluster as seed, so that every run of a test is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypedDict

from hsdns.corefile.properties import duration_to_text
from hsdns.faults.rules import RuleError
from hsdns.faults.words import read_rule
from hsdns.testing.errors import ClusterError, hides, unknown
from hsdns.testing.names import NAMESPACE, PodIdentity, forms
from hsdns.testing.pod import Pod

__tracebackhide__ = hides


class Keywords(TypedDict):
    """The keywords of cluster.fault(), in the order of evaluation; None if not given."""

    client: str | None
    pod: Pod | str | None
    transport: str | None
    name: str | None
    below: str | None
    qtype: str | None
    flow: str | None
    after: float | str | None
    before: float | str | None
    nth: int | None
    share: float | None
    times: int | None
    seed: int | None
    named: str | None


OPTIONS: Final = ("times", "seed", "named")
AS_TEXT: Final = {
    "qtype": "type",
    "below": "name below",
}  # keywords that have another word in a rule


def rule_words(
    rule: str, keywords: Keywords, pods: Mapping[str, PodIdentity], seed: int
) -> list[str]:
    """The words of a valid rule; raise ClusterError.  `pods` are the client pods, `seed` is the default seed."""
    if not isinstance(rule, str):
        raise ClusterError(f'a fault begins with what it does, such as "drop"; {rule!r} is no text')
    words = rule.split()
    try:
        written = read_rule(words)
        _check_about(written.action.about, words[0])
        given = {word: value for word, value in keywords.items() if value is not None}
        options = {word: str(value) for word, value in given.items() if word in OPTIONS}
        selectors = [word for word in given if word not in OPTIONS]
        if written.selector.text and selectors:
            raise _split(rule, "selectors", selectors[0])
        if given and (written.name, written.seed, written.lifetime, written.times) != (None,) * 4:
            raise _split(rule, "options", next(iter(given)))
        if written.seed is None:
            options.setdefault("seed", str(seed))
        for word in selectors:
            words += _selector(word, given[word], pods)
        words += [part for option in options.items() for part in option]
        if "pod" in given and written.action.about != "query":
            raise ClusterError(
                f'"{words[0]}" is not about queries, and a pod is known by its queries alone; leave "pod" out'
            )
        read_rule(words)
    except RuleError as error:
        raise ClusterError(f'the fault "{" ".join(words)}": {error}') from None
    return words


def _check_about(about: str, word: str) -> None:
    if about == "miss":
        raise ClusterError(
            f'"{word}" is about a queue that the cluster of a test does not have; "drop share 0.5" loses queries, too'
        )


def _split(rule: str, what: str, word: str) -> ClusterError:
    return ClusterError(
        f'"{rule}" has {what}, which the keyword "{word}" would follow; '
        f'write "{AS_TEXT.get(word, word)}" in the text too, or all of it as keywords'
    )


def _selector(word: str, value: object, pods: Mapping[str, PodIdentity]) -> list[str]:
    if word == "qtype":
        return ["type", str(value).upper()]
    if word == "pod":
        name = value.name if isinstance(value, Pod) else str(value)
        if name not in pods:
            raise unknown("there is no pod", name, pods)
        return ["pod", f"{pods[name].namespace}/{name}"]
    if word in ("name", "below"):
        below = ["below"] if word == "below" else []
        found = [["name", *below, f"{form}."] for form in forms(str(value), NAMESPACE)]
        if len(found) == 1:
            return found[0]
        rest = [part for each in found[1:] for part in ("or", *each)]
        return ["(", *found[0], *rest, ")"]
    if word in ("after", "before") and isinstance(value, int | float):
        return [word, duration_to_text(value)]
    return [word, *str(value).split()]
