"""HS181: the role of a DNS server that does not allow reading EndpointSlices.

Path: judging.py -> here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from hsdns.rules.check import check
from hsdns.rules.finding import Remark
from hsdns.rules.objects import Objects

_NAME: Final = re.compile(r"(^|[^a-z])(coredns|kube-dns|hsdns)($|[^a-z])")
_VERBS: Final = ("list", "watch")
_GROUP: Final = "discovery.k8s.io"


@check("HS181")
def without_slices(objects: Objects) -> Iterator[Remark]:
    """Roles for CoreDNS or hsdns without EndpointSlices."""
    for manifest in objects.written("ClusterRole"):
        rules = manifest.content.get("rules")
        listed = (
            [each for each in rules if isinstance(each, dict)] if isinstance(rules, list) else []
        )
        if not _NAME.search(manifest.name) or not any(
            _allows(each, "", "services", "watch") for each in listed
        ):
            continue  # the role of an autoscaler, for example
        missing = [
            verb
            for verb in _VERBS
            if not any(_allows(each, _GROUP, "endpointslices", verb) for each in listed)
        ]
        if missing:
            yield manifest.remark(
                "rules",
                f"the role does not allow to {' and '.join(missing)} endpointslices of {_GROUP}, so the server knows "
                "no endpoints: names with a cluster IP resolve, those of headless Services do not; add the rule",
            )


def _allows(rule: dict[str, Any], group: str, resource: str, verb: str) -> bool:
    wanted = {"apiGroups": group, "resources": resource, "verbs": verb}
    return all(
        isinstance(rule.get(key), list) and (value in rule[key] or "*" in rule[key])
        for key, value in wanted.items()
    )
