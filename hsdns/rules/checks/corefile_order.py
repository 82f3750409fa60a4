"""HS210, HS241 to HS244: which plugin answers first, and which never gets a query.

Path: judging.py -> here -> plugins/__init__.py, whose ORDER is that of CoreDNS.
Rule 1: a query passes the plugins of a server block in the order of the build, regardless of their order in the
        Corefile.
Rule 2: with `fallthrough ZONE`, a query goes on to the next plugin only in these zones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from typing import Final

from hsdns.cluster.objects import EndpointSlice
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.tree import CorefileError, Directive, ServerBlock, Token
from hsdns.rules.check import check
from hsdns.rules.corefile import CorefileText, directive_of, ports_of, property_of, zones_of
from hsdns.rules.finding import Remark
from hsdns.rules.objects import Objects
from hsdns.wire.name import Name

REVERSE: Final = tuple(Name.from_text(each) for each in ("in-addr.arpa.", "ip6.arpa."))
FALLTHROUGH: Final = "fallthrough"
# The plugins after kubernetes that have zones, and the number of arguments before the zones.
_LATER: Final = {"file": 1, "auto": 0, "secondary": 0, "forward": 0}
# The number of arguments before the zones of a plugin that answers before kubernetes.
_EARLIER: Final = {"hosts": 1, "template": 2}
_TYPES: Final = ("A", "ANY")  # a template for another type does not affect addresses


@check("HS210")
def answered_before(objects: Objects) -> Iterator[Remark]:
    """Plugins before kubernetes that answer for names of the cluster, and pass none on."""
    for corefile, block, kubernetes in _of_kubernetes(objects):
        for zone in _forward_zones(kubernetes, block):
            for name, before in _EARLIER.items():
                for directive in (each for each in block.directives if each.name.text == name):
                    if name == "template" and not _is_for_all(directive):
                        continue
                    zones = _zones(directive.args[before:], block)
                    if not _has(zones, zone) or _falls_through(directive, zone):
                        continue
                    code = "SERVFAIL" if name == "hosts" else "NXDOMAIN"
                    what = "names without a line" if name == "hosts" else "names that do not match"
                    if name == "template" and property_of(directive, "match") is None:
                        what, code = "all names", property_of(directive, "rcode") or "its records"
                    yield corefile.remark(
                        directive.name.position,
                        name,
                        f"{name} is asked before kubernetes, wherever it stands in the Corefile, and answers {what} "
                        f"with {code}, so those of {_shown(zone)} never reach kubernetes; add {FALLTHROUGH}, or give "
                        "it zones of its own",
                    )


@check("HS241")
def reverse_elsewhere(objects: Objects) -> Iterator[Remark]:
    """Reverse zones missing in kubernetes whose queries go to an upstream instead."""
    for corefile in objects.corefiles:
        known = list(corefile.directives("kubernetes"))
        has_reverse = any(
            zone.is_at_or_below(top) or top.is_at_or_below(zone)
            for block, kubernetes in known
            for zone in _zones(kubernetes.args, block)
            for top in REVERSE
        )
        if has_reverse:
            continue
        for block, kubernetes in known:
            forward = directive_of(block, "forward")
            if forward is None or _first(forward) != ".":
                continue
            yield corefile.remark(
                kubernetes.name.position,
                "kubernetes",
                "it has no reverse zone, so PTR queries for addresses of pods and Services are sent to the upstream, "
                "which does not know them; add in-addr.arpa ip6.arpa, and fallthrough for both",
            )


@check("HS242")
def reverse_denied(objects: Objects) -> Iterator[Remark]:
    """Reverse zones of kubernetes in which queries for other addresses do not reach the upstream."""
    for corefile, block, kubernetes in _of_kubernetes(objects):
        forward = directive_of(block, "forward")
        if forward is None or _first(forward) != ".":
            continue
        # A zone below in-addr.arpa has the cluster's own addresses.
        whole = [top for top in REVERSE if _has(_zones(kubernetes.args, block), top)]
        denied = [top for top in whole if not _falls_through(kubernetes, top)]
        if denied:
            listed = " ".join(map(_shown, denied))
            yield corefile.remark(
                kubernetes.name.position,
                "kubernetes",
                f"without {FALLTHROUGH} {listed} the addresses outside the cluster have no names: kubernetes denies "
                "their PTR queries, and the upstream is not asked; add it",
            )


@check("HS243")
def reverse_in_another_block(objects: Objects) -> Iterator[Remark]:
    """Server blocks that get queries for the reverse names of the cluster instead of kubernetes."""
    for corefile in objects.corefiles:
        serving = [
            (block, zone)
            for block, kubernetes in corefile.directives("kubernetes")
            for zone in _zones(kubernetes.args, block)
        ]
        for block in corefile.blocks:
            if directive_of(block, "kubernetes") is not None:
                continue
            for zone in zones_of(block):
                if not any(zone.is_at_or_below(top) and zone != top for top in REVERSE):
                    continue
                if not any(
                    zone.is_at_or_below(other) and ports_of(one) & ports_of(block)
                    for one, other in serving
                ):
                    continue
                found = next((each for each in _addresses(objects) if _is_in(each[0], zone)), None)
                if found is not None:
                    address, place = found
                    yield corefile.remark(
                        block.keys[0].position,
                        "",
                        f"this block has PTR queries for {address} of {place}, and has no kubernetes: the block with "
                        "the longest zone is asked, whatever their order; add kubernetes with these zones here, or "
                        "take out the block",
                    )


@check("HS244")
def never_asked(objects: Objects) -> Iterator[Remark]:
    """Zones of later plugins that kubernetes answers first."""
    for corefile, block, kubernetes in _of_kubernetes(objects):
        own = _forward_zones(kubernetes, block)
        for directive in block.directives:
            before = _LATER.get(directive.name.text)
            if before is None:
                continue
            words = directive.args[before:]
            if directive.name.text == "forward":
                words = words[:1]
            for zone in _zones(words, block):
                above = next((each for each in own if zone.is_at_or_below(each)), None)
                if above is None or _falls_through(kubernetes, zone):
                    continue
                yield corefile.remark(
                    directive.name.position,
                    directive.name.text,
                    f"kubernetes is asked before it, wherever it stands in the Corefile, and denies all names of "
                    f"{_shown(above)} that it does not know, so {_shown(zone)} is never asked here; add {FALLTHROUGH} "
                    f"{_shown(zone)} to kubernetes, or a server block for {_shown(zone)}",
                )


def _of_kubernetes(objects: Objects) -> Iterator[tuple[CorefileText, ServerBlock, Directive]]:
    """The `kubernetes` directives, each with its block and its Corefile."""
    for corefile in objects.corefiles:
        for block, directive in corefile.directives("kubernetes"):
            yield corefile, block, directive


def _zones(words: Sequence[Token], block: ServerBlock) -> list[Name]:
    """The zones of a plugin, by default those of its block; empty if they cannot be read."""
    try:
        return list(zones_from_args(words)) or zones_of(block)
    except CorefileError:
        return []


def _forward_zones(kubernetes: Directive, block: ServerBlock) -> list[Name]:
    zones = _zones(kubernetes.args, block)
    return [each for each in zones if not any(each.is_at_or_below(top) for top in REVERSE)]


def _has(zones: Sequence[Name], zone: Name) -> bool:
    return any(zone.is_at_or_below(each) for each in zones)


def _falls_through(directive: Directive, zone: Name) -> bool:
    """Whether a plugin passes on names of a zone that it does not know."""
    for line in directive.lines:
        if line.name.text == FALLTHROUGH:
            try:
                return not line.args or _has(zones_from_args(line.args), zone)
            except CorefileError:
                return True  # the zones are known only where the server runs
    return False


def _is_for_all(template: Directive) -> bool:
    words = [each.text.upper() for each in template.args]
    return len(words) > 1 and words[1] in _TYPES


def _addresses(objects: Objects) -> Iterator[tuple[str, str]]:
    """The addresses of the cluster that have names, each with one of its objects."""
    for manifest, service in objects.services:
        for address in service.spec.cluster_ips or [service.spec.cluster_ip or "None"]:
            if address != "None":
                yield address, str(manifest)
    for manifest in objects.of("EndpointSlice"):
        if isinstance(manifest.object, EndpointSlice):
            for endpoint in manifest.object.endpoints or ():
                for address in endpoint.addresses or ():
                    yield address, str(manifest)


def _is_in(address: str, zone: Name) -> bool:
    """Whether the reverse name of an address is in a zone."""
    try:
        return Name.from_text(ip_address(address).reverse_pointer + ".").is_at_or_below(zone)
    except ValueError:
        return False


def _first(directive: Directive) -> str:
    return directive.args[0].text if directive.args else ""


def _shown(zone: Name) -> str:
    return zone.to_text().rstrip(".") or "."
