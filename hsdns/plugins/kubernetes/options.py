"""The options of the `kubernetes` plugin: sources, API servers, selectors, zones of `multicluster`.

Path: corefile -> here -> the kubernetes plugin.
Rule: something that is missing at the moment (a file, a directory) is a warning; an invalid option is an error with its
      position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hsdns.cluster.address import is_reverse
from hsdns.cluster.objects import Selector
from hsdns.cluster.source import Source
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.tree import Directive, Line, Token
from hsdns.plugin import Block
from hsdns.sources import source_from
from hsdns.sources.api_access import ApiAccess, ConnectionOptions, WatchOptions
from hsdns.sources.api_server import ApiServer
from hsdns.wire.name import Name

IGNORABLE: Final = "empty_service"
# A command's source FILE [CONTEXT]: the API server of a kubeconfig, or without them of this pod's cluster.
KUBECONFIG: Final = "kubeconfig"


def check_together(
    directive: Directive, zones: Sequence[Name], options: dict[str, Any], block: Block
) -> None:
    """Raise CorefileError for options that contradict each other; warn of options without effect."""
    where = directive.name.position
    if all(is_reverse(zone) for zone in zones):
        raise where.error(
            "kubernetes needs a forward zone for the names in PTR records; add for example cluster.local"
        )
    if options["namespaces"] and options["namespace_labels"]:
        raise where.error('"namespaces" and "namespace_labels" of kubernetes cannot be combined')
    if options["zonal"] and options["noendpoints"]:
        raise line_of(directive, "zonal").error(
            '"zonal" needs endpoints, but "noendpoints" disables them; remove one of the two'
        )
    for zone in options["multicluster"]:
        if zone not in zones:
            known = " ".join(each.to_text() for each in zones)
            raise line_of(directive, "multicluster").error(
                f"zone {zone.to_text()} of multicluster is not one of the plugin's zones ({known}); "
                "add it after the word kubernetes"
            )
    for word in ("apiserver_qps", "apiserver_burst", "apiserver_max_inflight"):
        if options[word] is not None:
            block.warn(f'{where}: "{word}" has no effect, as in CoreDNS 1.14.7')


def named_source(line: Line | None, block: Block) -> Source | None:
    """The source of the command line or the block; with -validate, warn of missing files."""
    words, base_dir = block.source, "."
    if words is not None and words[0].text == KUBECONFIG:
        return None
    if words is None and line is not None:
        words, base_dir = line.args, block.corefile_dir
        if not words:
            raise line.error('"source" needs the name of a source, for example "manifests"')
    if words is None:
        return None
    source = source_from(words[0], words[1:], base_dir)
    for sentence in source.check() if block.validating else ():  # otherwise load() reports it
        block.warn(f"{words[0].position}: {sentence}")
    return source


def api_server(directive: Directive, options: dict[str, Any], block: Block) -> Source:
    """The API server of the command line or the block; warn of missing files."""
    if block.source is not None:
        own = tuple(each.text for each in block.source[1:])
        options |= {"kubeconfig": own, "endpoint": (), "tls": ()}
    words = (options["kubeconfig"], options["endpoint"], options["tls"])
    connection = ConnectionOptions(*words, block.runs_code)
    try:
        access = ApiAccess(connection)
    except ValueError as error:
        raise line_of(directive, "endpoint").error(str(error)) from None
    if not access.is_in_cluster and block.source is None:  # else they are checked when it starts
        where = line_of(directive, "kubeconfig" if connection.kubeconfig else "endpoint").position
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
    """The last occurrence of a property, or the directive itself."""
    found = [line.name for line in directive.lines if line.name.text == property_name]
    return found[-1] if found else directive.name


def read_selector(line: Line) -> Selector:
    """Parse a label selector."""
    if not line.args:
        raise line.error(f'"{line.name.text}" needs a label selector, for example "app=web"')
    try:
        return Selector.from_text(" ".join(token.text for token in line.args))
    except ValueError as error:
        raise line.args[0].error(str(error)) from None


def read_ignore(line: Line) -> bool:
    """Parse `ignore empty_service`; without an argument it has no effect, as in CoreDNS."""
    for token in line.args:
        if token.text != IGNORABLE:
            raise token.error(f'"{token.text}" cannot be ignored; the only choice is {IGNORABLE}')
    return bool(line.args)


def read_zones(line: Line) -> tuple[Name, ...]:
    """Parse the zones of `multicluster`."""
    if not line.args:
        raise line.error(f'property "{line.name.text}" takes at least 1 argument, found 0')
    return zones_from_args(line.args)


def words_of(directive: Directive, zones: tuple[Name, ...], block: Block) -> tuple[object, ...]:
    """The configuration of a block: blocks with the same configuration can share a watch."""
    return (
        zones,
        tuple(token.text for token in directive.args),
        lines_of(directive),
        tuple(token.text for token in block.source or ()),
        block.corefile_dir,
        "metadata" in block.plugins,
    )


def lines_of(directive: Directive) -> tuple[tuple[str, ...], ...]:
    """The properties of a block in the Corefile, word by word."""
    return tuple(
        (line.name.text, *(token.text for token in line.without_brace.args))
        for line in directive.lines
    )
