"""What the words of a `kubernetes` block mean: sources, API servers, selectors, zones of several clusters.

Path: corefile -> here -> plugins/kubernetes.py.
Rule 1: what is missing at the moment (a file, a folder) is a warning, what cannot be meant an error with its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hsdns.chain import Block
from hsdns.cluster.reverse import is_reverse
from hsdns.cluster.selector import Selector
from hsdns.cluster.source import Source
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.tree import CorefileError, Directive, Line, Token
from hsdns.sources import source_from
from hsdns.sources.api_access import ApiAccess, ConnectionOptions
from hsdns.sources.api_server import ApiServer, WatchOptions
from hsdns.wire.name import Name

IGNORABLE: Final = "empty_service"


def check_together(
    directive: Directive, zones: Sequence[Name], options: dict[str, Any], block: Block
) -> None:
    """Raise CorefileError for options that do not go together; warn of those without effect."""
    where = directive.name.position
    if all(is_reverse(zone) for zone in zones):
        raise CorefileError(
            where,
            "kubernetes needs a zone that is not a reverse zone, for the names in PTR records; "
            "add for example cluster.local",
        )
    if options["namespaces"] and options["namespace_labels"]:
        raise CorefileError(
            where, '"namespaces" and "namespace_labels" of kubernetes exclude each other'
        )
    if options["zonal"] and options["noendpoints"]:
        raise CorefileError(
            line_of(directive, "zonal").position,
            '"zonal" needs the endpoints that "noendpoints" hides; remove one of the two',
        )
    for zone in options["multicluster"]:
        if zone not in zones:
            known = " ".join(each.to_text() for each in zones)
            raise CorefileError(
                line_of(directive, "multicluster").position,
                f"zone {zone.to_text()} of multicluster is none of the plugin's ({known}); "
                "add it after the word kubernetes",
            )
    for word in ("apiserver_qps", "apiserver_burst", "apiserver_max_inflight"):
        if options[word] is not None:
            block.warn(f'{where}: "{word}" has no effect, as in CoreDNS 1.14.7')


def named_source(line: Line | None, block: Block) -> Source | None:
    """The source that the command line or the block names; -validate warns of what it misses at the moment."""
    words, base_dir = block.source, "."
    if words is None and line is not None:
        words, base_dir = line.args, block.corefile_dir
        if not words:
            raise CorefileError(
                line.name.position, '"source" needs the name of a source, for example "manifests"'
            )
    if words is None:
        return None
    source = source_from(words[0], words[1:], base_dir)
    for sentence in source.check() if block.validating else ():  # load() says it when it starts
        block.warn(f"{words[0].position}: {sentence}")
    return source


def api_server(directive: Directive, options: dict[str, Any], block: Block) -> Source:
    """The API server that the block's words mean; what it misses at the moment is a warning."""
    words = ConnectionOptions(options["kubeconfig"], options["endpoint"], options["tls"])
    try:
        access = ApiAccess(words)
    except ValueError as error:
        raise CorefileError(line_of(directive, "endpoint").position, str(error)) from None
    if not access.is_in_cluster:  # a pod's own files are looked at when it starts
        where = line_of(directive, "kubeconfig" if words.kubeconfig else "endpoint").position
        for sentence in access.check():
            block.warn(f"{where}: {sentence}")
    return ApiServer(
        access,
        WatchOptions(
            namespaces=options["namespaces"],
            labels=str(options["labels"] or ""),
            namespace_labels=str(options["namespace_labels"] or ""),
            endpoints=not options["noendpoints"],
            pods=options["pods"] == "verified",
            imports=bool(options["multicluster"]),
        ),
    )


def line_of(directive: Directive, property_name: str) -> Token:
    """Where a property stands, the last one of its name; the directive itself where it has none."""
    found = [line.name for line in directive.lines if line.name.text == property_name]
    return found[-1] if found else directive.name


def read_selector(line: Line) -> Selector:
    """Read a label selector from the rest of the line."""
    if not line.args:
        raise CorefileError(
            line.name.position, f'"{line.name.text}" needs a label selector, for example "app=web"'
        )
    try:
        return Selector.from_text(" ".join(token.text for token in line.args))
    except ValueError as error:
        raise CorefileError(line.args[0].position, str(error)) from None


def read_ignore(line: Line) -> bool:
    """Read `ignore empty_service`; without a word it does nothing, as in CoreDNS."""
    for token in line.args:
        if token.text != IGNORABLE:
            raise CorefileError(
                token.position, f'"{token.text}" cannot be ignored; the only choice is {IGNORABLE}'
            )
    return bool(line.args)


def read_zones(line: Line) -> tuple[Name, ...]:
    """Read the zones of `multicluster`."""
    if not line.args:
        raise CorefileError(
            line.name.position,
            f'property "{line.name.text}" takes at least 1 argument, found 0',
        )
    return zones_from_args(line.args)
