"""`hsdns doctor --against CONTEXT|FILE`: how the Services of two clusters differ.

Path: cli.py (two dumps) -> here -> rules/drift.py -> lint/drift.py -> standard output.
Rule 1: the exit status is 0 without differences, 1 with some, 2 if the Services of a side could not be read, or an
        object could not be compared.
Rule 2: StatefulSets that could not be read on one side are reported as not compared, without effect on the exit status.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from hsdns.apiserver.kubeconfig import KubeconfigError, read_context
from hsdns.cli.command import FlagError, complain
from hsdns.cli.source import DEMO
from hsdns.lint.drift import READ_TWICE, Compared, show
from hsdns.rules.drift import KINDS, SERVICE, SIDES, compare

if TYPE_CHECKING:
    from hsdns.doctor.cli import Doctor, DumpRead

_PLURALS: Final = {"Service": "services", "StatefulSet": "statefulsets"}


def other_side(options: Doctor, kubeconfig: str) -> Doctor:
    """The options to read the other side: a context of the kubeconfig, if it exists, or else a file.

    `kubeconfig` is empty if there is none.  Raise FlagError if it is neither.
    """
    word = str(options.against)
    try:
        if not kubeconfig:
            raise KubeconfigError("there is no kubeconfig for a context of that name")
        read_context(kubeconfig, word)
    except KubeconfigError as error:
        if word == "-" and "-" in (options.source or ()):
            raise FlagError(READ_TWICE) from None
        if word == DEMO:
            return replace(options, source=[word])
        if word == "-" or os.path.exists(word):
            return replace(options, source=["manifests", word])
        raise FlagError(f'--against: there is no file "{word}", and {error}') from None
    return replace(options, source=None, save=None, kubeconfig=kubeconfig, context=word)


def compare_dumps(here: DumpRead, there: DumpRead, target: str, output: str) -> int:
    """Compare and print; return the exit status.  Raise ValueError if neither side has the target."""
    kinds = list(KINDS)
    problems: list[str] = []
    objects = []
    for side, dump in zip(SIDES, (here, there), strict=True):
        problems += [*dump.files.unread, *dump.files.left_out]
        objects.append(dump.files.objects)
        for kind, plural in _PLURALS.items():
            if plural not in dump.lacking:
                continue
            sentence = (
                f"{kind}s are not compared: {side} ({dump.name}) {_why(dump.lacking[plural])}"
            )
            if kind == SERVICE:
                raise ValueError(sentence)
            complain(sentence)
            kinds = [each for each in kinds if each != kind]
    drift = compare(objects[0], objects[1], target, kinds)
    problems += drift.problems
    return show(Compared(drift, here.name, there.name, problems, with_places=False), output)


def _why(reason: str) -> str:
    return reason if reason.startswith("there ") else f"they could not be read: {reason}"
