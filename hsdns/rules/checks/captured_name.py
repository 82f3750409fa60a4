"""HS136: a namespace with the name of a top-level domain, so that the search list captures names of the internet.

Path: judging.py -> here.
Rule: a lookup of `web.com` in the cluster first queries `web.com.svc.cluster.local`, which is the Service `web` in the
      namespace `com`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hsdns.rules.check import check
from hsdns.rules.finding import Remark
from hsdns.rules.objects import Objects

# The first set has most names; the second are top-level domains that are words, like namespaces.
COMMON: Final = frozenset("com net org edu gov int mil io co".split())
WORDS: Final = frozenset(
    "ai app auto blog build business cloud codes company data design dev digital email engineering finance games "
    "global group health host hosting info it link live mail market media me monitor network news nexus one online "
    "page play pro prod run sale services shop shopping site software solutions space store studio support systems "
    "team tech tools tv video web wiki work world xyz zone".split()
) - {"data", "mail", "monitor", "prod", "web"}  # words that are not top-level domains yet


@check("HS136")
def captured(objects: Objects) -> Iterator[Remark]:
    """Namespaces named like a top-level domain, with a Service in them."""
    told: set[str] = set()
    for manifest, _ in objects.services:
        namespace = manifest.namespace
        if namespace in told or namespace not in COMMON | WORDS:
            continue
        told.add(namespace)
        asked = f"{manifest.name}.{namespace}"
        yield manifest.remark(
            "metadata.namespace",
            f'"{namespace}" is also a top-level domain: a pod that asks for {asked} gets this Service, and not the '
            f'host of that name on the internet; name the namespace otherwise, or ask for "{asked}."',
            level="warning" if namespace in COMMON else "note",
        )
