"""Whether the plugins of a configuration are ready.

Path: beside the queries; `ready` shows it, server/runtime.py asks the plugins.
Source: CoreDNS 1.14.7 plugin/ready; remarks are hsdns's own.
Rule 1: a plugin without ReportsReadiness is ready from the start.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, Self, runtime_checkable

from hsdns.capability import has


class Named(Protocol):
    """A plugin, of which only the name is wanted."""

    @property
    def name(self) -> str:
        """The name of its directive."""


@runtime_checkable
class ReportsReadiness(Protocol):
    """A plugin that is not ready before it has done something (CoreDNS: Readiness)."""

    def ready(self) -> bool:
        """Whether /ready may say yes for this plugin."""


@runtime_checkable
class MayRelapse(Protocol):
    """A plugin that /ready goes on asking after it was ready once."""

    may_relapse: bool


@runtime_checkable
class MakesRemarks(Protocol):
    """A plugin that has something to tell the operator though it is ready."""

    def remark(self) -> str:
        """One line; "" for nothing."""


class Readiness(NamedTuple):
    """The plugins' reports, all sorted by name.

    `unready` names those that are not ready, `relapsed` those of them for which having been ready once is not enough;
    `remarks` are lines for the operator: `kubernetes: serving a snapshot`.
    """

    unready: list[str]
    relapsed: list[str]
    remarks: list[str]

    @classmethod
    def of(cls, plugins: Iterable[Named]) -> Self:
        """Ask plugins; a name that several blocks have is in a list once."""
        unready, relapsed, remarks = set[str](), set[str](), set[str]()
        for plugin in plugins:
            if has(plugin, ReportsReadiness) and not plugin.ready():
                unready.add(plugin.name)
                if has(plugin, MayRelapse) and plugin.may_relapse:
                    relapsed.add(plugin.name)
            if has(plugin, MakesRemarks) and (remark := plugin.remark()):
                remarks.add(f"{plugin.name}: {remark}")
        return cls(sorted(unready), sorted(relapsed), sorted(remarks))
