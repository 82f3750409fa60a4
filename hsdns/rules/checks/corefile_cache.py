"""HS202, HS248: answers of the cluster's zone that are cached after the objects have changed.

Path: judging.py -> here.
Rule: CoreDNS caches a negative answer as long as the SOA record allows, whose MINIMUM is the `ttl` of kubernetes, but
      at most as long as configured in cache.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.tree import CorefileError, Directive, ServerBlock
from hsdns.rules.check import check
from hsdns.rules.corefile import directive_of, property_of
from hsdns.rules.finding import Remark
from hsdns.rules.objects import Objects
from hsdns.wire.name import Name

LONG: Final = 60  # seconds; longer than a rollout waits for its first answer
DEFAULT_TTL: Final = 5
DEFAULT_DENIAL: Final = 1800
_NUMBER: Final = re.compile("[0-9]{1,9}")


@check("HS202")
def denial(objects: Objects) -> Iterator[Remark]:
    """Negative answers for the cluster's names that are cached for long."""
    for corefile in objects.corefiles:
        for block, directive in corefile.directives("cache"):
            kubernetes = directive_of(block, "kubernetes")
            if kubernetes is None or not _is_stored(directive, kubernetes, block):
                continue
            seconds = min(
                _seconds(property_of(kubernetes, "ttl"), DEFAULT_TTL), _denial_ttl(directive)
            )
            if seconds <= DEFAULT_TTL:
                continue
            zone = next((each.text for each in kubernetes.args), "the zone of the cluster")
            yield corefile.remark(
                directive.name.position,
                "cache",
                f"that a name of {zone} does not exist is remembered for {seconds} seconds, also when its Service or "
                f"endpoint is there meanwhile; write denial 9984 {DEFAULT_TTL}, or disable denial {zone}",
                level="warning" if seconds > LONG else "",
            )


@check("HS248")
def long_ttl(objects: Objects) -> Iterator[Remark]:
    """TTLs that let clients use addresses of deleted pods for long."""
    for corefile in objects.corefiles:
        for _, directive in corefile.directives("kubernetes"):
            seconds = _seconds(property_of(directive, "ttl"), DEFAULT_TTL)
            if seconds > LONG:
                yield corefile.remark(
                    directive.name.position,
                    "kubernetes",
                    f"answers may be kept for {seconds} seconds, by cache and by clients, which then go on with the "
                    "addresses of pods that are gone; write ttl 30, as kubeadm does, or less",
                )


def _seconds(text: str | None, default: int) -> int:
    return int(text) if text is not None and _NUMBER.fullmatch(text) else default


def _denial_ttl(cache: Directive) -> int:
    first = cache.args[0].text if cache.args else ""
    seconds = _seconds(first, DEFAULT_DENIAL)
    for line in cache.lines:
        if line.name.text == "denial" and len(line.args) > 1:
            seconds = _seconds(line.args[1].text, seconds)
    return seconds


def _is_stored(cache: Directive, kubernetes: Directive, block: ServerBlock) -> bool:
    args = cache.args[1:] if cache.args and cache.args[0].text.isdecimal() else cache.args
    try:
        own = zones_from_args(kubernetes.args)
        stored = zones_from_args(args)
        if stored and not any(_overlap(each, zone) for each in own for zone in stored):
            return False
        for line in cache.lines:
            if line.name.text == "disable" and line.args and line.args[0].text == "denial":
                zones = zones_from_args(line.args[1:])
                if not zones or (own and any(own[0].is_at_or_below(zone) for zone in zones)):
                    return False
    except CorefileError:
        return False
    return True


def _overlap(one: Name, other: Name) -> bool:
    return one.is_at_or_below(other) or other.is_at_or_below(one)
