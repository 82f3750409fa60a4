"""HS201 to HS210, HS241 to HS248: Corefiles.

Path: judging.py -> here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple

from hsdns.assemble import AssembledBlock
from hsdns.cluster.address import REVERSE_ZONES
from hsdns.cluster.objects import EndpointSlice
from hsdns.corefile.keys import split_ip_port, zones_from_args
from hsdns.corefile.tree import CorefileError, Directive, ServerBlock, Token
from hsdns.rules.corefile_text import (
    DNS_PORT,
    CorefileText,
    Placed,
    directive_of,
    ports_of,
    property_of,
    zones_of,
)
from hsdns.rules.objects import Objects, check
from hsdns.rules.rule import Remark
from hsdns.wire.name import Name


@check("HS201", needs="configmaps", each="corefiles")
def unreadable(objects: Objects, corefile: CorefileText) -> Iterator[Remark]:
    """Corefiles with which CoreDNS does not start."""
    yield from corefile.errors


@check("HS205", needs="configmaps", each="corefiles")
def without_ready(objects: Objects, corefile: CorefileText) -> Iterator[Remark]:
    """Servers that get queries before they have read the cluster."""
    first = next(corefile.directives("kubernetes"), None)
    if first is not None and not any(corefile.directives("ready")):
        yield first.remark(
            "without the plugin ready a probe cannot tell when the server knows the cluster, and queries that come "
            "before get SERVFAIL; add ready, and a readinessProbe for /ready on port 8181"
        )


@check("HS209", needs="configmaps", each=lambda objects: objects.directives("health"))
def without_lameduck(objects: Objects, health: Placed) -> Iterator[Remark]:
    """Servers that stop while they still get queries."""
    if any(health.corefile.directives("kubernetes")) and health.property("lameduck") is None:
        yield health.remark(
            "without lameduck the server stops at once, while nodes still send it queries; "
            "write lameduck 5s"
        )


# HS202, HS248: answers of the cluster's zone that are cached after the objects have changed.
#
# Rule: CoreDNS caches a negative answer as long as the SOA record allows, whose MINIMUM is the `ttl` of kubernetes, but
#       at most as long as configured in cache.


LONG: Final = 60  # seconds; longer than a rollout waits for its first answer
DEFAULT_TTL: Final = 5
DEFAULT_DENIAL: Final = 1800
_NUMBER: Final = re.compile("[0-9]{1,9}")


@check("HS202", needs="configmaps", each=lambda objects: objects.directives("cache"))
def denial(objects: Objects, cache: Placed) -> Iterator[Remark]:
    """Negative answers for the cluster's names that are cached for long."""
    kubernetes = cache.beside("kubernetes")
    if kubernetes is None or not _is_stored(cache.directive, kubernetes):
        return
    ttl = _seconds(property_of(kubernetes, "ttl"), DEFAULT_TTL)
    seconds = min(ttl, _denial_ttl(cache.directive))
    if seconds > DEFAULT_TTL:
        zone = next((each.text for each in kubernetes.args), "the zone of the cluster")
        yield cache.remark(
            f"that a name of {zone} does not exist is remembered for {seconds} seconds, also when its Service or "
            f"endpoint is there meanwhile; write denial 9984 {DEFAULT_TTL}, or disable denial {zone}",
            level="warning" if seconds > LONG else "",
        )


@check("HS248", needs="configmaps", each="kubernetes_blocks")
def long_ttl(objects: Objects, kubernetes: Placed) -> Iterator[Remark]:
    """TTLs that let clients use addresses of deleted pods for long."""
    seconds = _seconds(kubernetes.property("ttl"), DEFAULT_TTL)
    if seconds > LONG:
        yield kubernetes.remark(
            f"answers may be kept for {seconds} seconds, by cache and by clients, which then go on with the "
            "addresses of pods that are gone; write ttl 30, as kubeadm does, or less"
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


def _is_stored(cache: Directive, kubernetes: Directive) -> bool:
    args = cache.args[1:] if cache.args and cache.args[0].text.isdecimal() else cache.args
    try:
        own = zones_from_args(kubernetes.args)
        stored = zones_from_args(args)
        if stored and not any(overlap(each, zone) for each in own for zone in stored):
            return False
        for line in cache.lines:
            if line.name.text == "disable" and line.args and line.args[0].text == "denial":
                zones = zones_from_args(line.args[1:])
                if not zones or (own and any(own[0].is_at_or_below(zone) for zone in zones)):
                    return False
    except CorefileError:
        return False
    return True


def overlap(one: Name, other: Name) -> bool:
    """Whether one zone is in the other."""
    return one.is_at_or_below(other) or other.is_at_or_below(one)


# HS203, HS204, HS206, HS207: where a Corefile forwards queries for names outside the cluster.


RESOLV_CONF: Final = "resolv.conf"


def _forwards(objects: Objects) -> Iterator[Placed]:
    return objects.directives("forward")


def _of_all_names(objects: Objects) -> Iterator[Placed]:
    """The `forward` directives for all names."""
    return (each for each in _forwards(objects) if _first(each.directive) == ".")


@check("HS203", needs="configmaps")
def itself(objects: Objects) -> Iterator[Remark]:
    """Upstreams that are the server itself."""
    for corefile in objects.corefiles:
        for token, sentence in loops((each.block, each.assembled) for each in corefile.setup):
            yield corefile.remark(token.position, "forward", sentence)


def loops(blocks: Iterable[tuple[ServerBlock, AssembledBlock]]) -> Iterator[tuple[Token, str]]:
    """Upstreams from which a query returns to their block until it times out, each with a sentence."""
    for block, assembled in blocks:
        if directive_of(block, "rewrite") is not None or directive_of(block, "view") is not None:
            continue
        for directive in block.directives:
            for token in directive.args[1:] if directive.name.text == "forward" else ():
                if _is_own(token, assembled):
                    yield (
                        token,
                        f"{token.text} is this server itself, so every query comes back to it until it times out; "
                        "write the address of another server, or the resolv.conf that the node's resolver reads",
                    )


def _is_own(upstream: Token, block: AssembledBlock) -> bool:
    place = split_ip_port(upstream.text.removeprefix("dns://"), DNS_PORT)
    if place is None:
        return False
    address = ip_address(place.host)
    return any(
        address.is_unspecified
        or (address.is_loopback if listen.is_wildcard else place.host == listen.host)
        for listen in block.listens
        if (listen.port, listen.scheme) == (place.port, "dns")
    )


@check("HS204", needs="configmaps", each=_of_all_names)
def without_loop(objects: Objects, forward: Placed) -> Iterator[Remark]:
    """Servers that do not detect that the node's resolv.conf refers to them."""
    named = (each for each in forward.directive.args[1:] if each.text.endswith(RESOLV_CONF))
    token = next(named, None)
    if token is not None and forward.beside("loop") is None:
        yield forward.remark(
            f"{token.text} may name a resolver of the node that sends queries back to this server, and "
            "only the plugin loop would notice; add loop",
            at=token,
        )


@check("HS206", needs="configmaps", each=_of_all_names)
def one_upstream(objects: Objects, forward: Placed) -> Iterator[Remark]:
    """A single upstream for all names."""
    upstreams = forward.directive.args[1:]
    if len(upstreams) == 1 and _is_address(upstreams[0]):
        yield forward.remark(
            f"{upstreams[0].text} is the only upstream, so while it does not answer no name outside the "
            "cluster resolves; name a second one",
            at=upstreams[0],
        )


@check("HS207", needs="configmaps", each=_of_all_names)
def without_limit(objects: Objects, forward: Placed) -> Iterator[Remark]:
    """No limit on the queries that wait for an upstream."""
    if forward.property("max_concurrent") is None:
        yield forward.remark(
            "without max_concurrent, queries that wait for a slow upstream pile up until the memory limit is "
            "reached; write max_concurrent 1000, as kubeadm does"
        )


def _is_address(token: Token) -> bool:
    scheme, _, rest = token.text.rpartition("://")
    return split_ip_port(rest if scheme else token.text, DNS_PORT) is not None


# HS210, HS241 to HS244: which plugin answers first, and which never gets a query.
#
# Rule 1: a query passes the plugins of a server block in the order of the build, regardless of their order in the
#         Corefile.
# Rule 2: with `fallthrough ZONE`, a query goes on to the next plugin only in these zones.


FALLTHROUGH: Final = "fallthrough"
# The plugins after kubernetes that have zones, and the number of arguments before the zones.
_LATER: Final = {"file": 1, "auto": 0, "secondary": 0, "forward": 0}
# The number of arguments before the zones of a plugin that answers before kubernetes.
_EARLIER: Final = {"hosts": 1, "template": 2}
_TYPES: Final = ("A", "ANY")  # a template for another type does not affect addresses


@check("HS210", needs="configmaps")
def answered_before(objects: Objects) -> Iterator[Remark]:
    """Plugins before kubernetes that answer for names of the cluster, and pass none on."""
    for corefile in objects.corefiles:
        for block in corefile.blocks:
            for token, sentence in before_kubernetes(block):
                yield corefile.remark(token.position, token.text, sentence)


def before_kubernetes(block: ServerBlock) -> Iterator[tuple[Token, str]]:
    """The names of these plugins in a block, each with a sentence."""
    kubernetes = directive_of(block, "kubernetes")
    for zone in _forward_zones(kubernetes.args, block) if kubernetes is not None else ():
        for directive in block.directives:
            name = directive.name.text
            if name not in _EARLIER or (name == "template" and not _is_for_all(directive)):
                continue
            zones = _zones(directive.args[_EARLIER[name] :], block)
            if not _has(zones, zone) or falls_through(directive, zone):
                continue
            code = "SERVFAIL" if name == "hosts" else "NXDOMAIN"
            what = "names without a line" if name == "hosts" else "names that do not match"
            if name == "template" and property_of(directive, "match") is None:
                what, code = "all names", property_of(directive, "rcode") or "its records"
            yield (
                directive.name,
                f"{name} comes before kubernetes, wherever it stands in the Corefile, and answers {what} "
                f"with {code}, so those of {_shown(zone)} never reach kubernetes; add {FALLTHROUGH}, or give "
                "it its own zones",
            )


@check("HS241", needs="configmaps", each="corefiles")
def reverse_elsewhere(objects: Objects, corefile: CorefileText) -> Iterator[Remark]:
    """Reverse zones missing in kubernetes whose queries go to an upstream instead."""
    known = list(corefile.directives("kubernetes"))
    zones = [zone for each in known for zone in _zones(each.directive.args, each.block)]
    if any(overlap(zone, top) for zone in zones for top in REVERSE_ZONES):
        return
    for kubernetes in known:
        if _forwards_all(kubernetes):
            yield kubernetes.remark(
                "it has no reverse zone, so PTR queries for addresses of pods and Services are sent to the upstream, "
                "which does not know them; add in-addr.arpa ip6.arpa, and fallthrough for both"
            )


@check("HS242", needs="configmaps", each="kubernetes_blocks")
def reverse_denied(objects: Objects, kubernetes: Placed) -> Iterator[Remark]:
    """Reverse zones of kubernetes in which queries for other addresses do not reach the upstream."""
    if not _forwards_all(kubernetes):
        return
    # A zone below in-addr.arpa has the cluster's own addresses.
    zones = _zones(kubernetes.directive.args, kubernetes.block)
    whole = [top for top in REVERSE_ZONES if _has(zones, top)]
    denied = [top for top in whole if not falls_through(kubernetes.directive, top)]
    if denied:
        listed = " ".join(map(_shown, denied))
        yield kubernetes.remark(
            f"without {FALLTHROUGH} {listed} the addresses outside the cluster have no names: kubernetes denies "
            "their PTR queries, and no upstream gets them; add it"
        )


@check("HS243", needs="services|endpointslices|configmaps", each="corefiles")
def reverse_in_another_block(objects: Objects, corefile: CorefileText) -> Iterator[Remark]:
    """Server blocks that get queries for the reverse names of the cluster instead of kubernetes."""
    serving = [
        (each.block, zone)
        for each in corefile.directives("kubernetes")
        for zone in _zones(each.directive.args, each.block)
    ]
    for block in corefile.blocks:
        for zone in zones_of(block) if directive_of(block, "kubernetes") is None else ():
            if not any(zone.is_at_or_below(top) and zone != top for top in REVERSE_ZONES):
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
                    "the longest zone answers, whatever their order; add kubernetes with these zones here, or "
                    "take out the block",
                )


@check("HS244", needs="configmaps", each="kubernetes_blocks")
def never_asked(objects: Objects, kubernetes: Placed) -> Iterator[Remark]:
    """Zones of later plugins that kubernetes answers first."""
    corefile, block, directive = kubernetes
    own = _forward_zones(kubernetes.directive.args, kubernetes.block)
    for later in (each for each in block.directives if each.name.text in _LATER):
        words = later.args[_LATER[later.name.text] :]
        for zone in _zones(words[:1] if later.name.text == "forward" else words, block):
            above = next((each for each in own if zone.is_at_or_below(each)), None)
            if above is not None and not falls_through(directive, zone):
                yield Placed(corefile, block, later).remark(
                    f"kubernetes comes before it, wherever it stands in the Corefile, and denies all names of "
                    f"{_shown(above)} that it does not know, so {_shown(zone)} never gets here; add {FALLTHROUGH} "
                    f"{_shown(zone)} to kubernetes, or a server block for {_shown(zone)}"
                )


def _forwards_all(kubernetes: Placed) -> bool:
    """Whether its block forwards all names."""
    forward = kubernetes.beside("forward")
    return forward is not None and _first(forward) == "."


def _zones(words: Sequence[Token], block: ServerBlock) -> list[Name]:
    """The zones of a plugin, by default those of its block; empty if they cannot be read."""
    try:
        return list(zones_from_args(words)) or zones_of(block)
    except CorefileError:
        return []


def _forward_zones(words: Sequence[Token], block: ServerBlock) -> list[Name]:
    return [
        each
        for each in _zones(words, block)
        if not any(each.is_at_or_below(top) for top in REVERSE_ZONES)
    ]


def _has(zones: Sequence[Name], zone: Name) -> bool:
    return any(zone.is_at_or_below(each) for each in zones)


def falls_through(directive: Directive, zone: Name) -> bool:
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
    for manifest, found in objects.typed(EndpointSlice):
        for endpoint in found.endpoints or ():
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


# HS208, HS245 to HS247: effects of `rewrite` and `template` on names and replies.
#
# Rule: the rules of rewrite are tried in the order of the file, and the first match ends it, unless that rule begins
#       with `continue`.


_FIELDS: Final = ("name", "ttl", "rcode", "cname")
_TRAPS: Final = {"prefix": "begin with", "substring": "contain"}
_KINDS: Final = ("exact", "prefix", "suffix", "substring", "regex")
_ANSWER: Final = "answer"
_EVERY: Final = (
    ".*",
    "(.*)",
    "^.*$",
    "^(.*)$",
    "^.*",
    ".+",
    "(.+)",
    "^(.+)$",
)  # regular expressions for all names


class _Rule(NamedTuple):
    """A rule of rewrite: its words from the field, such as `name`, on; `goes_on` if later rules are tried after it."""

    placed: Placed
    words: list[Token]
    goes_on: bool

    @property
    def kind(self) -> str:
        """The type of match of its pattern."""
        word = self.words[1].text if len(self.words) > 3 else ""
        return word if word in _KINDS else "exact"

    @property
    def pattern(self) -> str:
        """Its pattern as a complete name; empty for a regular expression."""
        at = 2 if len(self.words) > 3 and self.words[1].text in _KINDS else 1
        if self.kind == "regex" or len(self.words) <= at:
            return ""
        return self.words[at].text.lower().rstrip(".") + "."

    @property
    def is_for_names(self) -> bool:
        """Whether it is a rule for names."""
        return len(self.words) > 2 and self.words[0].text == "name"

    def takes_all_of(self, other: _Rule) -> bool:
        """Whether it matches every query that another rule matches."""
        if self.kind == "regex" and self.words[2].text in _EVERY:
            return True
        if not other.is_for_names:
            return False
        pattern, longer = self.pattern, other.pattern
        if not pattern or not longer:
            return False
        if self.kind == "suffix":
            return other.kind in ("exact", "suffix") and longer.endswith(pattern)
        if self.kind == "prefix":
            return other.kind in ("exact", "prefix") and longer.startswith(pattern)
        if self.kind == "substring":
            return pattern in longer
        return other.kind == "exact" and pattern == longer


@check("HS208", needs="configmaps", each=lambda objects: objects.directives("rewrite"))
def rewrite_trap(objects: Objects, rewrite: Placed) -> Iterator[Remark]:
    """Patterns of rewrite that match whole labels only."""
    words = list(rewrite.directive.args)
    if words and words[0].text in ("continue", "stop"):
        del words[0]
    if len(words) < 3 or words[0].text not in _FIELDS or words[1].text not in _TRAPS:
        return
    kind, pattern = words[1].text, words[2]
    if not pattern.text.endswith("."):
        yield rewrite.remark(
            f'a dot is added to the pattern, so only names that {_TRAPS[kind]} "{pattern.text}." match: the '
            f"pattern ends at the end of a label; write the dot if that is meant, or use regex",
            at=pattern,
        )


@check("HS245", needs="configmaps", each=lambda objects: objects.directives("template"))
def denied_family(objects: Objects, template: Placed) -> Iterator[Remark]:
    """Templates that deny a name because it has no address of one family."""
    words = [each.text.upper() for each in template.directive.args]
    lines = [each for each in template.directive.lines if each.name.text == "rcode" and each.args]
    if len(words) < 2 or words[1] != "AAAA" or not lines:
        return
    token = lines[0].args[0]
    if token.text.upper() == "NXDOMAIN" and template.property(_ANSWER) is None:
        yield template.remark(
            "NXDOMAIN says that a name has no records of any type, so musl, the libc of Alpine images, drops its A "
            "records too; write rcode NOERROR, which says that it has no AAAA record",
            at=token,
            edit=template.corefile.replaced(token, "NOERROR"),
        )


def _rules(objects: Objects) -> Iterator[_Rule]:
    """The rules of rewrite, in order."""
    for placed in objects.directives("rewrite"):
        words = list(placed.directive.args)
        for line in placed.directive.lines:
            words += [line.name, *line.args]
        mode = words.pop(0).text if words and words[0].text in ("continue", "stop") else ""
        if words:
            yield _Rule(placed, words, mode == "continue")


@check("HS246", needs="configmaps")
def without_answer(objects: Objects) -> Iterator[Remark]:
    """Rules after which the reply has another name than the question."""
    for rule in _rules(objects):
        if (
            rule.is_for_names
            and rule.kind != "exact"
            and all(each.text != _ANSWER for each in rule.words)
        ):
            yield rule.placed.remark(
                "the records of the reply keep the rewritten name, and many clients, such as glibc, ignore records "
                "whose name is not the one they queried; add answer auto to the rule, which only rules of the kind "
                "exact need not have",
                at=rule.words[0],
            )


@check("HS247", needs="configmaps")
def shadowed(objects: Objects) -> Iterator[Remark]:
    """Rules that never match because of an earlier one."""
    earlier: list[_Rule] = []
    for rule in _rules(objects):
        above = (each for each in earlier if each.placed.block is rule.placed.block)
        first = next((each for each in above if each.takes_all_of(rule)), None)
        if first is None:
            earlier += [rule] if rule.is_for_names and not rule.goes_on else []
            continue
        yield rule.placed.remark(
            f"the rule has no effect: that for {first.kind} {first.pattern or first.words[2].text} comes first and "
            "matches all its names, and after a match no other rule is tried; put this one above it",
            at=rule.words[0],
        )
