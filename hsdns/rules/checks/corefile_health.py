"""HS201, HS205, HS209: a Corefile as a whole, and the probes of its server.

Path: judging.py -> here.
"""

from __future__ import annotations

from collections.abc import Iterator

from hsdns.rules.check import check
from hsdns.rules.corefile import property_of
from hsdns.rules.finding import Remark
from hsdns.rules.objects import Objects


@check("HS201")
def unreadable(objects: Objects) -> Iterator[Remark]:
    """Corefiles with which CoreDNS does not start."""
    for corefile in objects.corefiles:
        for error in corefile.errors:
            yield corefile.remark(error.position, "", error.message)


@check("HS205")
def without_ready(objects: Objects) -> Iterator[Remark]:
    """Servers that get queries before they have read the cluster."""
    for corefile in objects.corefiles:
        first = next(corefile.directives("kubernetes"), None)
        if first is not None and not any(corefile.directives("ready")):
            yield corefile.remark(
                first[1].name.position,
                "kubernetes",
                "without the plugin ready a probe cannot tell when the server knows the cluster, and queries that come "
                "before get SERVFAIL; add ready, and a readinessProbe for /ready on port 8181",
            )


@check("HS209")
def without_lameduck(objects: Objects) -> Iterator[Remark]:
    """Servers that stop while they still get queries."""
    for corefile in objects.corefiles:
        if not any(corefile.directives("kubernetes")):
            continue
        for _, directive in corefile.directives("health"):
            if property_of(directive, "lameduck") is None:
                yield corefile.remark(
                    directive.name.position,
                    "health",
                    "without lameduck the server stops at once, while nodes still send it queries; "
                    "write lameduck 5s",
                )
