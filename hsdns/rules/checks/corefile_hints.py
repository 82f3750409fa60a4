"""HS249: valid parts of a Corefile that are probably mistakes.

Path: judging.py, cli/coredns.py for `-validate`, explanation/cli.py for a name -> here.
Rule 1: hints are few and precise: only for parts without effect, or without the effect that must have been intended.
Rule 2: a zone with a final dot is assumed to be intended.  So the user can resolve every hint about a word read as a
        zone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from hsdns.assemble import AssembledBlock, Configuration, ListenAddress, plugin_class
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.tree import Corefile, CorefileError, Directive, Position, ServerBlock, Token
from hsdns.plugins import ORDER
from hsdns.rules.checks.corefile import before_kubernetes, falls_through, loops, overlap
from hsdns.rules.objects import Objects, check
from hsdns.rules.rule import Remark
from hsdns.wire.name import ROOT, Name


@check("HS249", needs="configmaps")
def without_effect(objects: Objects) -> Iterator[Remark]:
    """Parts without the effect that they seem to have."""
    for corefile in objects.corefiles:
        # What is imported and not known may have any plugin.
        unknown = [
            {"import"} if block.keys[0].position in corefile.importing else set()
            for block, *_ in corefile.setup
        ]
        found = {
            hint
            for (block, known, assembled), more in zip(corefile.setup, unknown, strict=True)
            for hint in _of_block(known, assembled, _names_of(block) | more)
        }
        blocks = [(block, assembled) for block, _, assembled in corefile.setup]
        found.update((token.position, sentence) for token, sentence in hidden_blocks(blocks))
        told = {each.position for each in corefile.errors}
        found = {each for each in found if each[0] not in told}
        for position, sentence in sorted(found.union(corefile.warnings)):
            remark = corefile.remark(position, "", sentence)
            yield remark._replace(level="note" if sentence == STDOUT else "")


Hint = tuple[Position, str]

# The arguments of a directive that are zones.
ZONES: Final[dict[str, Callable[[Sequence[Token]], Sequence[Token]]]] = {
    **dict.fromkeys(
        ("acl", "auto", "k8s_external", "kubernetes", "metadata", "secondary", "transfer", "tsig"),
        lambda args: args,
    ),
    "autopath": lambda args: args[:-1],
    "cache": lambda args: args[1:] if args and args[0].text.isdecimal() else args,
    "file": lambda args: args[1:],
    "forward": lambda args: args[:1],
    "hosts": lambda args: args[1:],
    "log": lambda args: args[:-1] if len(args) > 1 and "{" in args[-1].text else args,
    "template": lambda args: args[2:],
}
# The arguments of their properties that are zones.
PROPERTY_ZONES: Final = (("forward", "except"), ("*", "fallthrough"))
# Words intended as a number, a switch or an output; none of them is a top-level domain.
WORDS: Final = frozenset(
    "five ten fifteen twenty thirty forty fifty sixty ninety hundred thousand seconds minutes "
    "on off true false none enable enabled disable disabled stdout stderr".split()
)
CLASSES_OF_LOG: Final = frozenset({"all", "success", "denial", "error"})
NO_ZONE: Final = re.compile(r"[*{}\s,|=:;()'\"]")
NUMBER: Final = re.compile(r"[0-9/]+")
WARNED: Final = {"cache": re.compile(r"[0-9]{1,9}[smh]"), "log": re.compile(r".*\{.*")}  # at setup
NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_BRACES: Final = "write properties into braces, each on its own line"
# With one of these, the chain of a block gets queries for names outside its zones, or for other plugins.
WIDENING: Final = frozenset({"k8s_external", "python", "rewrite"})
ANSWERING: Final = ("k8s_external", "file", "auto", "secondary", "forward", "erratic", "whoami")
# Plugins that answer for zones or names that are not on the line of their directive.
UNKNOWN_ZONES: Final = frozenset({"autopath", "chaos", "fault", "any", "dns64"})
# Plugins that answer all names of their zones, unless they fall through, and the number of arguments before the zones.
AUTHORITIES: Final = {"template": 2, "k8s_external": 0, "file": 1, "auto": 0, "secondary": 0}
STDOUT: Final = '"stdout" has no effect: errors are always logged there; remove it'
FOR_ALL: Final = frozenset({"net", "type", "*"})  # the words of a rule of acl for all queries
NEEDS_TLS: Final = ("tls", "tls_servername")
# A plugin's name that is also a top-level domain.
ALSO_ZONES: Final = frozenset({"local"})


def hints(corefile: Corefile, configuration: Configuration) -> list[Hint]:
    """The hints of HS203, HS210 and HS249 by position, each once; `configuration` was made from all blocks."""
    blocks = list(zip(corefile.blocks, configuration.blocks, strict=True))
    others = [*loops(blocks), *hidden_blocks(blocks)]
    for block in corefile.blocks:
        others += before_kubernetes(block)
    found = {(token.position, sentence) for token, sentence in others}
    for block, assembled in blocks:
        found.update(_of_block(block, assembled, _names_of(block)))
    return sorted(found)


def never_asked(configuration: Configuration, server_block: str, name: Name) -> Iterator[Hint]:
    """The plugins that have the zone of a name in a block, such as `.:53`, but never get the name."""
    for block, assembled in zip(configuration.corefile.blocks, configuration.blocks, strict=True):
        if all(f"{key.zone.to_text()}:{key.port}" != server_block for key in assembled.keys):
            continue
        zones = [key.zone for key in assembled.keys]
        having = {
            each.name.position
            for each in block.directives
            if any(name.is_at_or_below(zone) for zone in _zones_or(each, zones))
        }
        widened = bool(_names_of(block) & WIDENING)
        found = _never_asked(block, zones, widened=widened)
        yield from (hint for hint in found if hint[0] in having)


def _names_of(block: ServerBlock) -> frozenset[str]:
    return frozenset(each.name.text for each in block.directives)


def _of_block(
    block: ServerBlock, assembled: AssembledBlock, names: frozenset[str]
) -> Iterator[Hint]:
    """The hints of a block; `names` are those of all its directives, also of those that are not judged."""
    zones = [key.zone for key in assembled.keys]
    for key in block.keys:
        if key.text in ORDER and key.text not in ALSO_ZONES:
            sentence = 'is a "}" too early, so that this line is not in the block above?'
            yield key.position, f'"{key.text}" is read as the zone of a server block; {sentence}'
    for directive in block.directives:
        yield from _of_words(directive)
        if not names & WIDENING:
            yield from _of_zones(directive, zones)
    yield from _of_forward(block)
    yield from _of_hosts(block, zones)
    yield from _of_acl(block)
    yield from _of_namespaces(block)
    yield from _of_braces(block)
    yield from _never_asked(block, zones, widened=bool(names & WIDENING))
    yield from _of_log(block)
    yield from _of_autopath(block, zones, names)
    if not names & (WIDENING | UNKNOWN_ZONES) and all(name in ORDER for name in names):
        yield from _of_cache(block, zones)


def _named(block: ServerBlock, name: str) -> list[Directive]:
    return [each for each in block.directives if each.name.text == name]


def _zones_of(directive: Directive) -> Sequence[Token]:
    read = ZONES.get(directive.name.text)
    return () if read is None else read(directive.args)


def _of_words(directive: Directive) -> Iterator[Hint]:
    """Words that are read as zones or upstreams, and variables without a value."""
    name = directive.name.text
    properties = plugin_class(name).PROPERTIES
    words = [*_zones_of(directive)]
    for line in directive.lines:
        if any((each, line.name.text) in PROPERTY_ZONES for each in (name, "*")):
            words += line.args
    for token in words:
        meant = _meant(token, name, properties)
        if meant:
            yield token.position, f'"{token.text}" is read as a zone; {meant}'
    if name == "forward":
        for token in directive.args[1:]:
            if token.text in properties:
                sentence = f"is read as the host name of an upstream; {_BRACES}"
                yield token.position, f'"{token.text}" {sentence}'
    args = () if name == "log" else directive.args  # it then logs all names, which may be intended
    for token in (*args, *(word for line in directive.lines for word in (line.name, *line.args))):
        if token.lacking:
            yield token.position, f'{token.lacking}, so "{token.text}" is used here'


def _meant(token: Token, plugin: str, properties: object) -> str:
    """The probable meaning of a word read as a zone, "" if it may be a zone."""
    text = token.text.lower()
    if text == "}":
        return ""  # _of_braces() tells it
    try:
        (zone, *more) = zones_from_args((token,))
    except CorefileError:
        return ""
    labels = zone.to_text().removesuffix(".").split(".")
    if text.endswith(".") or more or labels[-1] == "arpa":
        return ""
    if plugin in WARNED and WARNED[plugin].fullmatch(text):
        return ""
    assert isinstance(properties, dict)
    if text in properties:
        return _BRACES
    if plugin == "log" and text in CLASSES_OF_LOG:
        return f'write the class into braces: "log {{", "class {text}", "}}"'
    if NO_ZONE.search(token.text):
        return "zones are separated by spaces and have no wildcards"
    if NUMBER.fullmatch(labels[-1]) and len(labels) > 1:
        if plugin == "forward" and "/" not in text:
            return f'the first argument of forward is a zone, as in "forward . {text}"'
        return 'the zone of a network has the form "10.244.0.0/16"'
    if plugin == "log" and text in ("stdout", "stderr"):
        return "log writes to standard output anyway, so remove it"
    if text in WORDS or (len(labels) == 1 and text[0] in "+-0123456789"):
        if plugin == "cache":
            return 'a TTL is a number of seconds without a unit, as in "cache 30"'
        return f'if it is one, write "{text}."'
    return ""


def _of_zones(directive: Directive, zones: Sequence[Name]) -> Iterator[Hint]:
    """Zones of a plugin whose names never reach its server block."""
    words = _zones_of(directive)
    try:
        own = zones_from_args(tuple(words))
    except CorefileError:
        return
    if own and zones and not any(overlap(zone, other) for zone in own for other in zones):
        served = " ".join(zone.to_text() for zone in dict.fromkeys(zones))
        sentence = f"this server block gets only queries for {served}, none of which is in {own[0].to_text()}"
        yield words[0].position, f"{directive.name.text} has no effect: {sentence}"


def _of_forward(block: ServerBlock) -> Iterator[Hint]:
    """Properties for TLS without an upstream that uses it."""
    for directive in _named(block, "forward"):
        if any(token.text.startswith(("tls://", "https://")) for token in directive.args):
            continue
        for name, *_ in directive.lines:
            if name.text in NEEDS_TLS:
                sentence = (
                    'queries are forwarded unencrypted: no upstream is written as "tls://ADDRESS"'
                )
                yield name.position, f'"{name.text}" has no effect, and {sentence}'


def _of_hosts(block: ServerBlock, zones: Sequence[Name]) -> Iterator[Hint]:
    """A `hosts` that answers for all names, before a plugin that should."""
    # Plugins that only provide the search path of `autopath`.
    searched = {
        token.text.removeprefix("@")
        for each in _named(block, "autopath")
        for token in each.args[-1:]
    }
    after = [each for name in ANSWERING if name not in searched for each in _named(block, name)]
    hidden = [token for token, _ in before_kubernetes(block)]
    is_reverse = any(zone.to_text().endswith("arpa.") for zone in zones)
    for directive in _named(block, "hosts") if after and not is_reverse else ():
        falls = any(line.name.text == "fallthrough" for line in directive.lines)
        own = zones_from_args(directive.args[1:]) or zones
        covers = all(any(zone.is_at_or_below(other) for other in own) for zone in zones)
        if covers and not falls and directive.name not in hidden:
            later = f"{after[0].name.text} at {after[0].name.position}"
            yield (
                directive.name.position,
                f"hosts answers SERVFAIL for each name that it does not have, so {later} is never asked "
                'for an address; add "fallthrough" in its braces',
            )


def _of_acl(block: ServerBlock) -> Iterator[Hint]:
    """Rules that only allow, although everything without a rule is allowed anyway; and rules after one for all."""
    acls = _named(block, "acl")
    for each in acls:
        of_all = [
            at for at, line in enumerate(each.lines) if {word.text for word in line.args} <= FOR_ALL
        ]
        if of_all and each.lines[of_all[0] + 1 :]:
            line, after = each.lines[of_all[0] : of_all[0] + 2]
            sentence = f'"{line.name.text}" at {line.name.position} is for all of them; put this one above it'
            yield after.name.position, f"no query reaches this rule of acl: {sentence}"
    rules = {line.name.text.lower() for each in acls for line in each.lines}
    if rules == {"allow"}:
        sentence = (
            'its rules only allow, and so does the end of the list; add "block" as the last rule'
        )
        yield acls[0].name.position, f"acl has no effect: {sentence}"


def _of_namespaces(block: ServerBlock) -> Iterator[Hint]:
    """Namespaces that cannot exist."""
    lines = [line for each in _named(block, "kubernetes") for line in each.lines]
    for token in (token for each in lines if each.name.text == "namespaces" for token in each.args):
        if not (NAMESPACE.fullmatch(token.text) or token.lacking):
            sentence = "so nothing is served of it; names are in lower case and separated by spaces"
            yield token.position, f'no namespace can have the name "{token.text}", {sentence}'


# Lines that can never act, since another one is always first.


def hidden_blocks(
    blocks: Sequence[tuple[ServerBlock, AssembledBlock]],
) -> Iterator[tuple[Token, str]]:
    """Blocks with a view after one without, which gets all queries for the same zones."""
    owners: dict[tuple[Name, ListenAddress], Token] = {}
    for block, assembled in blocks:
        served = {
            (key.zone, each): key.token for key in assembled.keys for each in assembled.listens
        }
        if assembled.filtered and served and served.keys() <= owners.keys():
            first = next(owners[each] for each in served)
            yield (
                block.keys[0],
                f"this server block never gets a query: the one at {first.position} has the same zones and no view, "
                "and the first that takes a query has it; put the block with the view above it",
            )
        if not assembled.filtered:
            owners |= served


def _of_braces(block: ServerBlock) -> Iterator[Hint]:
    """A `}` that is read as an argument."""
    for directive in block.directives:
        table = plugin_class(directive.name.text).PROPERTIES
        for line in directive.lines[-1:] if directive.name.text != "rewrite" else ():
            known = table.get(line.name.text)
            brace = line.brace if known is None else known.line(line).brace
            if brace is not None:
                sentence = "here, as in CoreDNS; put it on its own line"
                yield brace.position, f'"}}" is an argument of "{line.name.text}" {sentence}'


def _never_asked(block: ServerBlock, zones: Sequence[Name], *, widened: bool) -> Iterator[Hint]:
    """Plugins whose names an earlier one never passes on; what kubernetes and hosts hide are HS244 and _of_hosts().

    If the block is `widened`, plugins without zones get other names than those of its zones.
    """
    provider = {each.args[-1].text for each in _named(block, "autopath") if each.args}
    order = [name for name in ORDER if name in AUTHORITIES or name in ANSWERING]
    asked = [each for name in order for each in _named(block, name)]
    for at, later in enumerate(asked):
        name = later.name.text
        own = _zones_or(later, () if widened else zones)
        if not widened:  # the block gets only names of its own zones
            within = [
                max(one, other, key=lambda zone: len(zone.wire))
                for one in own
                for other in zones
                if overlap(one, other)
            ]
            own = within or own
        keeping = [
            next((each for each in asked[:at] if _keeps(each, later, zone, zones)), None)
            for zone in own
        ]
        first = keeping[0] if all(keeping) and keeping and f"@{name}" not in provider else None
        if first is None:
            continue
        shown = " ".join(_shown(each) for each in dict.fromkeys(own))
        above = f"this {name} is never asked: the {first.name.text} at {first.name.position}"
        if first.name.text == "forward":
            yield (
                later.name.position,
                f"{above} has {shown} too; remove one, or write all upstreams into one",
            )
        else:
            yield (
                later.name.position,
                f"{above} answers all names of {shown}; give that one fallthrough, or other zones",
            )


def _keeps(first: Directive, later: Directive, zone: Name, zones: Sequence[Name]) -> bool:
    """Whether a plugin passes on no query for names of a zone that the later one would answer."""
    name = first.name.text
    if not any(zone.is_at_or_below(each) for each in _zones_or(first, zones)):
        return False
    if name == "forward":
        excepted = [
            word for line in first.lines if line.name.text == "except" for word in line.args
        ]
        passes = any(line.name.text in ("next", "next_on_nodata") for line in first.lines)
        return not passes and not any(overlap(zone, each) for each in _read_zones(excepted))
    if name == "template":
        kinds = [each.text.upper() for each in first.args[:2]]
        if later.name.text != name:
            is_all = kinds in (["ANY", "ANY"], ["IN", "ANY"])
        else:
            others = [each.text.upper() for each in later.args[:2]]
            is_all = all(one in ("ANY", two) for one, two in zip(kinds, others, strict=False))
        return is_all and not falls_through(first, zone)
    return name in AUTHORITIES and not falls_through(first, zone)


def _answering(block: ServerBlock) -> list[Directive]:
    names = {*AUTHORITIES, *ANSWERING, "hosts", "kubernetes"}
    return [each for each in block.directives if each.name.text in names]


def _zones_or(directive: Directive, zones: Sequence[Name]) -> Sequence[Name]:
    """The zones of a plugin, by default those of its block."""
    return _read_zones(_zones_of(directive)) or zones


def _read_zones(words: Sequence[Token]) -> Sequence[Name]:
    try:
        return zones_from_args(tuple(words))
    except CorefileError:
        return ()


def _shown(zone: Name) -> str:
    return zone.to_text().removesuffix(".") or "."


def _of_log(block: ServerBlock) -> Iterator[Hint]:
    """Names of `log` that an earlier one has, whose classes and format then count; and `errors stdout`."""
    earlier: list[tuple[Name, Token]] = []
    for directive in _named(block, "log"):
        own = _read_zones(_zones_of(directive)) or (ROOT,)
        covering = (
            token for name, token in earlier if all(each.is_at_or_below(name) for each in own)
        )
        above = next(covering, None)
        if above is not None:
            sentence = f"of several with a name the first counts, at {above.position}; put this one above it"
            yield directive.name.position, f"this log has no effect: {sentence}"
        earlier += [(name, directive.name) for name in own]
    for directive in _named(block, "errors"):
        for token in directive.args:
            yield token.position, STDOUT


def _of_autopath(
    block: ServerBlock, zones: Sequence[Name], names: frozenset[str]
) -> Iterator[Hint]:
    """An `autopath` whose last name, the one without a search domain, no plugin of the block answers."""
    widening = WIDENING | UNKNOWN_ZONES | {"erratic", "whoami"}
    if names & (widening - {"autopath", "k8s_external"}) or not names <= set(ORDER):
        return
    if any(ROOT in _zones_or(each, zones) for each in _answering(block)):
        return
    lines = [line for each in _named(block, "kubernetes") for line in each.lines]
    verified = any(
        [each.text for each in (line.name, *line.args)] == ["pods", "verified"] for line in lines
    )
    for directive in _named(block, "autopath"):
        # Without this line, the plugin kubernetes knows no search lists.
        if verified or not directive.args or not directive.args[-1].text.startswith("@"):
            sentence = "so each name that no search domain completes gets SERVFAIL"
            yield (
                directive.name.position,
                f"autopath looks up the bare name last, and no plugin of this server block answers it, {sentence}; "
                "add forward to the block, or take autopath out",
            )


def _of_cache(block: ServerBlock, zones: Sequence[Name]) -> Iterator[Hint]:
    """Zones of `cache` that no plugin of the block answers."""
    answered = [zone for each in _answering(block) for zone in _zones_or(each, zones)]
    for directive in _named(block, "cache") if answered else ():
        properties = plugin_class("cache").PROPERTIES
        for token in _zones_of(directive):
            own = [
                each for each in _read_zones([token]) if any(overlap(each, zone) for zone in zones)
            ]
            is_meant = not _meant(token, "cache", properties) and not WARNED["cache"].fullmatch(
                token.text
            )
            if (
                own
                and is_meant
                and not any(overlap(each, zone) for each in own for zone in answered)
            ):
                yield (
                    token.position,
                    f"no plugin of this server block answers names of {token.text}, so none is cached",
                )
