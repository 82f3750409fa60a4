"""Translates a DNSChaos object of Chaos Mesh into rules: `hsdns fault import`.

Path: cli.py reads the file -> here -> texts of rules, which the server reads like those of `hsdns fault add`.
Rule: a field without an equivalent is refused by its name, because a rule without it would hit other queries.
Source: Chaos Mesh's api/v1alpha1/dnschaos_type.go and selector.go, and chaos.go of k8s_dns_chaos: `error` is SERVFAIL,
`random` an address for A and AAAA and SERVFAIL for other types; with `pods`, all else of the selector has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal

import msgspec

from hsdns.faults.rules import RuleError
from hsdns.faults.words import Do, When, Words

KIND: Final = "DNSChaos"
ADDRESSES: Final = When.TYPE("A") | When.TYPE("AAAA")


class Requirement(msgspec.Struct):
    """metav1.LabelSelectorRequirement."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = []


class PodSelector(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """PodSelectorSpec: the fields that rules can have."""

    namespaces: list[str] = []
    label_selectors: dict[str, str] = {}
    expression_selectors: list[Requirement] = []
    pods: dict[str, list[str]] = {}


class Spec(msgspec.Struct, forbid_unknown_fields=True):
    """DNSChaosSpec: the fields that rules can have."""

    action: Literal["error", "random"]
    mode: Literal["all", "one", "fixed", "fixed-percent", "random-max-percent"]
    selector: PodSelector
    value: str = ""
    patterns: list[str] = []
    duration: str = ""


class Metadata(msgspec.Struct):
    """The metadata that rules need."""

    name: str
    namespace: str = "default"


class DnsChaos(msgspec.Struct):
    """A DNSChaos object."""

    metadata: Metadata
    spec: Spec


def rules_of(document: Any) -> Iterator[str]:
    """Yield the rules that do what an object of a manifest does; raise RuleError."""
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind != KIND:
        raise RuleError(f"found {kind or 'no object'}; only {KIND} can be translated")
    try:
        chaos = msgspec.convert(document, DnsChaos)
    except msgspec.ValidationError as error:
        raise RuleError(f"{KIND} has something that rules cannot have: {error}") from None
    name, spec = chaos.metadata.name, chaos.spec
    if spec.mode != "all":
        raise RuleError(
            f'{KIND} {name}: mode "{spec.mode}" draws some of the pods, and a rule is about all that it selects; '
            'name the pods in spec.selector.pods, and write mode "all"'
        )
    pods, patterns = _pods(spec.selector, chaos.metadata.namespace), map(_name, spec.patterns)
    asked = _any([*patterns])
    until = ["for", spec.duration] if spec.duration else []
    failure = Do.RCODE("SERVFAIL")
    does = failure if spec.action == "error" else Do.ANSWER("random")
    yield " ".join(map(str, [does, *asked, *pods, *until, "named", name]))
    if spec.action == "random":
        rest = [failure, *asked, *pods, ~ADDRESSES, *until, "named", f"{name}-other"]
        yield " ".join(map(str, rest))


def _name(pattern: str) -> Words:
    is_form = "*" in pattern or "?" in pattern
    return When.NAME("like", pattern) if is_form else When.NAME(pattern)


def _pods(selected: PodSelector, namespace: str) -> list[Words]:
    if selected.pods:
        return _any(
            When.POD(f"{of}/{each}") for of, names in selected.pods.items() for each in names
        )
    spaces = selected.namespaces or [namespace]
    equal = [f"{key}={value}" for key, value in selected.label_selectors.items()]
    labels = [[each] for each in equal] + [*map(_alternatives, selected.expression_selectors)]
    if not labels:
        return _any(When.POD(f"{each}/*") for each in spaces)
    return [
        part
        for texts in labels
        for part in _any(When.LABELS(f"{each}/{text}") for each in spaces for text in texts)
    ]


def _alternatives(required: Requirement) -> Sequence[str]:
    if required.operator == "In":
        return [f"{required.key}={each}" for each in required.values]
    if required.operator == "NotIn":
        return [",".join(f"{required.key}!={each}" for each in required.values)]
    return [required.key if required.operator == "Exists" else f"!{required.key}"]


def _any(found: Iterable[Words]) -> list[Words]:
    """Any of some selectors, as a list with one selector; nothing for none."""
    joined: list[Words] = []
    for each in found:
        joined = [joined[0] | each] if joined else [each]
    return joined
