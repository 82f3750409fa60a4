"""The pods that a selector means, though it does not match them.

Path: behind.py, rules/checks/services.py (a selector that matches no pod), explanation/nearest.py (edits()) -> here.
Rule 1: pods are named only if they are meant: they are of the Service's name, or all that the selector asks for is
        there but for a spelling, for another key or for one label; else none are, however few there are.
Rule 2: a label of all pods of an installation does not tell one workload from another.
Rule 3: `cache-1` and `cache-2` are two names, not one misspelt.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final, Generic, Protocol, TypeVar

from hsdns.cluster.objects import labels_text

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
# Labels of pods that no template has.
MADE_LABELS: Final = frozenset(
    "apps.kubernetes.io/pod-index pod-template-hash controller-revision-hash pod-template-generation "
    "batch.kubernetes.io/job-name job-name batch.kubernetes.io/controller-uid controller-uid "
    "batch.kubernetes.io/job-completion-index".split()
) | {POD_NAME}
_OF_INSTALLATION: Final = frozenset(
    "app.kubernetes.io/instance app.kubernetes.io/part-of app.kubernetes.io/managed-by app.kubernetes.io/version "
    "helm.sh/chart release heritage chart version".split()
)
# Labels that tell the workload of an installation, in a Service's own labels too.
_IDENTITY: Final = (
    "app.kubernetes.io/component",
    "component",
    "app.kubernetes.io/name",
    "app",
    "k8s-app",
    "name",
)
_INSTANCE: Final = ("app.kubernetes.io/instance", "release")
_PURPOSE: Final = re.compile(
    r"-(headless|hl|svc|service|lb|http|https|internal|external|nodeport|np|peers?|discovery|metrics|"
    r"deployment|deploy|statefulset|sts|daemonset|ds)$"
)
_STATES: Final = frozenset(
    "true active leader master primary replica secondary slave standby writer reader ready".split()
)
_SWITCHES: Final = frozenset(("true", "false", "yes", "no", "enabled", "disabled", ""))
_MISSPELT: Final = 0.75  # difflib's ratio of two longer words
_KEYS: Final = ("1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEXT: Final = {row[at : at + 2] for row in _KEYS for at in range(len(row) - 1)}
SHORT: Final = 4  # letters of a word in which any other letter makes another word
MANY: Final = 3  # more edits than are looked for
_LONG: Final = 6  # letters of a word in which more than one letter may differ

# How much a label of the pods counts, and that all labels are there but for their spelling, more than the same name.
_EXACT, _NEAR, _WHOLE = 4, 3, 20


class Labelled(Protocol):
    """Pods with the same labels: those of a workload, whose name it is, or one pod."""

    @property
    def name(self) -> str:
        """The name of the workload or the pod."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the pods."""


L = TypeVar("L", bound=Labelled)


def nearest(
    name: str,
    selector: Mapping[str, str],
    candidates: Iterable[L],
    labels: Mapping[str, str],
) -> L | None:
    """The pods that the selector of Service `name` means, the first of those as near; `labels` are its own."""
    found = [(*_nearness(name, selector, each, labels), each) for each in candidates]
    # Labels that several workloads have do not tell which of them is meant.
    is_told = sum(told for _, told, _ in found) == 1
    meant = [(score, each) for score, told, each in found if score and (is_told or not told)]
    return max(meant, key=lambda pair: pair[0])[1] if meant else None


class Neighbours(Generic[L]):
    """The pods of a namespace by the values of their labels: nearest() of them, without a look at each.

    Pods that no selector means share neither a value with it nor one that is spelt alike, nor a name; words that are
    spelt alike have letters in common.
    """

    def __init__(self, pods: Iterable[L]) -> None:
        self._pods = list(pods)
        self._names: defaultdict[str, set[int]] = defaultdict(set)
        self._values: defaultdict[str, set[int]] = defaultdict(set)
        for at, each in enumerate(self._pods):
            self._names[_bare(each.name)].add(at)
            for value in each.labels.values():
                self._values[value].add(at)
        self._letters = [(_letters(each), len(each), each) for each in self._values]

    def __len__(self) -> int:
        return len(self._pods)

    def nearest(
        self, name: str, selector: Mapping[str, str], labels: Mapping[str, str]
    ) -> L | None:
        """The pods that the selector of Service `name` means, as of all of them."""
        chosen = set(self._names.get(_bare(name), ()))
        own = (labels[key] for key in _IDENTITY if key in labels)
        for value in (*selector.values(), *own):
            chosen |= self._values.get(value, set())
        for key, value in selector.items():
            if key not in MADE_LABELS:
                for other in self._alike(value):
                    chosen |= self._values[other]
        return nearest(name, selector, [self._pods[at] for at in sorted(chosen)], labels)

    def _alike(self, value: str) -> Iterator[str]:
        """The values that are spelt like one."""
        letters, length = _letters(value), len(value)
        for found, other_length, other in self._letters:
            most = max(2, (length + other_length) // 4)
            if (letters ^ found).bit_count() <= most and is_misspelt(value, other):
                yield other


def _letters(value: str) -> int:
    """The letters of a value, as bits."""
    return sum({1 << (ord(each) & 127) for each in value.lower() if each.isalnum()})


def _nearness(
    name: str, selector: Mapping[str, str], pods: Labelled, labels: Mapping[str, str]
) -> tuple[int, bool]:
    """How near pods are to the selector of Service `name`, 0 if they are not meant; whether only its labels say so."""
    has = pods.labels
    wrong, absent, exact, score = 0, 0, 0, 0
    for key, value in selector.items():
        if key in MADE_LABELS:
            continue
        if has.get(key) == value:
            score += _EXACT
            exact += key not in _OF_INSTALLATION
        elif is_misspelt(value, has.get(key, "")) or other_key(key, value, selector, has):
            score += _NEAR
        else:
            wrong += 1
            absent += key not in has
    related = kinship(name, pods.name)
    is_meant = bool(related) or not wrong or (wrong == absent == 1 and exact > 0)
    is_told = not is_meant and _is_told(labels, has)
    score += (
        _WHOLE * (not wrong)
        + _EXACT * related
        + sum(labels.get(key) == has.get(key, "") for key in _IDENTITY)
    )
    return score if is_meant or is_told else 0, is_told


def other_key(key: str, value: str, selector: Mapping[str, str], has: Mapping[str, str]) -> str:
    """The key under which pods have a value; empty if there is none that the selector does not have otherwise."""
    for other, found in has.items():
        is_taken = selector.get(other) == found
        is_common = other in _OF_INSTALLATION and key not in _OF_INSTALLATION
        if found == value and not is_taken and not is_common and value not in _SWITCHES:
            return other
    return ""


def kinship(service: str, workload: str) -> int:
    """Whether a Service and a workload have the same name, or one but for what the Service is for."""
    if service == workload:
        return _EXACT
    return 2 if _bare(service) == _bare(workload) else 0


@lru_cache(100_000)
def _bare(name: str) -> str:
    """A name without what its Service is for, or what kind of workload has it."""
    return _PURPOSE.sub("", name)


def _is_told(labels: Mapping[str, str], has: Mapping[str, str]) -> bool:
    """Whether a Service's own labels tell the workload of pods: it is of the same installation and component."""
    own = [key for key in _IDENTITY if key in labels]
    is_of_instance = any(labels.get(key, "") == has.get(key, 0) for key in _INSTANCE)
    return is_of_instance and bool(own) and all(has.get(key) == labels[key] for key in own)


def telling_label(
    labels: Mapping[str, str], own: Mapping[str, str], other: Mapping[str, str]
) -> str:
    """The label of a Service by which it means some pods and not others; empty if there is none."""
    told = (key for key in _IDENTITY if key in labels and own.get(key) == labels[key])
    return next((key for key in told if other.get(key, labels[key]) != labels[key]), "")


def is_set_later(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether all that pods lack are labels that are set while they run, as of a primary: no template has them."""
    return all(
        key not in labels and _is_set_at_run_time(key, selector[key], labels)
        for key in different(selector, labels)
    )


def _is_set_at_run_time(key: str, value: str, labels: Mapping[str, str]) -> bool:
    is_known = key in _IDENTITY or key.startswith("app.kubernetes.io/")
    return (
        value in _STATES and not is_known and (value in _SWITCHES or value not in labels.values())
    )


def is_misspelt(one: str, other: str) -> bool:
    """Whether two values differ in the letters of one word."""
    if not one or not other or one == other:
        return False
    words = re.split(r"[-_./]", one), re.split(r"[-_./]", other)
    if len(words[0]) != len(words[1]):
        return re.sub(r"[-_.]", "", one) == re.sub(r"[-_.]", "", other)
    pairs = [pair for pair in zip(*words, strict=True) if pair[0] != pair[1]]
    if len(pairs) != 1:
        return not pairs  # another sign between the same words
    ((left, right),) = pairs
    if not left.isalpha() or not right.isalpha():
        return re.sub(r"[0-9]", "", left) != re.sub(r"[0-9]", "", right) and _is_one_edit(
            left, right
        )
    if _is_one_edit(left, right):
        return True
    if min(len(left), len(right)) < _LONG:
        return False
    return SequenceMatcher(None, left, right).ratio() >= _MISSPELT


def is_slip(one: str, other: str) -> bool:
    """Whether a misspelt value is surely that, and not another word of a few letters, as `main` and `mail` are."""
    is_other = len(one) == len(other) < 2 * _LONG and sorted(one) != sorted(other)
    return is_misspelt(one, other) and not is_other


def _is_one_edit(left: str, right: str) -> bool:
    """Whether one letter is lost, doubled, or in the place of its neighbour, or, of four and more, is another one."""
    if left.lower() == right.lower():
        return True
    short, long = sorted((left, right), key=len)
    if len(short) < 3:
        return len(short) == 2 and long in (short[::-1], short[0] + short, short + short[1:])
    is_other = len(long) == 3 and sorted(short) != sorted(long)
    return not is_other and edits(short, long) <= 1


def edits(word: str, other: str, *, is_short: bool = False) -> int:
    """The edits between two words, with a swap of neighbours as one (optimal string alignment).

    Of a short word only a doubled letter, a swap, and from SHORT letters on a missing letter or the next key is a slip.
    """
    missing = MANY if len(other) < SHORT else 1
    before, row = list[int](), [missing * to for to in range(len(other) + 1)]
    for at, letter in enumerate(word):
        is_doubled = letter in word[max(0, at - 1) : at] + word[at + 1 : at + 2]
        added = 1 if is_doubled or not is_short else MANY
        last, before, row = before, row, [row[0] + added]
        for to, wanted in enumerate(other):
            is_next = not is_short or (
                len(other) > 2 and {letter + wanted, wanted + letter} & _NEXT
            )
            other_key = 0 if letter == wanted else 1 if is_next else MANY
            best = min(before[to + 1] + added, row[to] + missing, before[to] + other_key)
            if at and to and word[at - 1 : at + 1] == other[to - 1 : to + 1][::-1]:
                best = min(best, last[to - 1] + 1)
            row.append(best)
    return row[-1]


def mismatch(selector: Mapping[str, str], place: str, labels: Mapping[str, str]) -> str:
    """The sentence about a selector that matches no pod, with the labels of the pods that it means."""
    has, lacks = list[str](), list[str]()
    for key in different(selector, labels):
        other = key if key in labels else other_key(key, selector[key], selector, labels)
        has += [f"{other}={labels[other]}"] if other else []
        lacks += [] if other else [key]
    parts = [", ".join(has)] if has else []
    parts += [f"no label {' and no label '.join(lacks)}"] if lacks else []
    return f"selector {labels_text(selector)} matches no pod; {place} has {', and '.join(parts)}"


def in_other_namespace(selector: Mapping[str, str], namespace: str, place: str, other: str) -> str:
    """The sentence about a selector whose pods are in another namespace."""
    text = labels_text(selector)
    return f"selector {text} matches no pod in namespace {namespace}; {place} in namespace {other} has {text}"


def unlike(selector: Mapping[str, str], namespace: str, *, has_pods: bool) -> str:
    """The sentence about a selector if it is not known which pods it means."""
    why = ", and no pod has labels like it" if has_pods else f": there is none in {namespace}"
    return f"selector {labels_text(selector)} matches no pod{why}"


def different(selector: Mapping[str, str], labels: Mapping[str, str]) -> list[str]:
    """The keys of a selector whose values pods do not have; made ones only if it asks for no other."""
    keys = [key for key, value in selector.items() if labels.get(key) != value]
    return [key for key in keys if key not in MADE_LABELS] or keys


def corrected(selector: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, str]:
    """The selector that matches the pods that it means; empty if they have none of the labels."""
    found: dict[str, str] = {}
    wrong = different(selector, labels)
    for key, value in selector.items():
        other = key if key in labels else other_key(key, value, selector, labels)
        if key in MADE_LABELS:
            found |= {} if key in wrong else {key: value}
        elif other:
            found[other] = labels[other]
    return found
