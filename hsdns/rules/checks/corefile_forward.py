"""HS203, HS204, HS206, HS207: where a Corefile forwards queries for names outside the cluster.

Path: judging.py -> here.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from hsdns.corefile.arguments import split_ip_port
from hsdns.corefile.tree import Directive, ServerBlock, Token
from hsdns.rules.check import check
from hsdns.rules.corefile import DNS_PORT, CorefileText, directive_of, ports_of, property_of
from hsdns.rules.finding import Remark
from hsdns.rules.objects import Objects

RESOLV_CONF: Final = "resolv.conf"


@check("HS203")
def itself(objects: Objects) -> Iterator[Remark]:
    """Upstreams that are the server itself."""
    for corefile in objects.corefiles:
        for block, directive in corefile.directives("forward"):
            if (
                directive_of(block, "bind") is not None
                or directive_of(block, "rewrite") is not None
            ):
                continue
            for token in directive.args[1:]:
                upstream = split_ip_port(token.text.removeprefix("dns://"), DNS_PORT)
                if upstream is None or upstream.port not in ports_of(block):
                    continue
                address = ip_address(upstream.host)
                if address.is_loopback or address.is_unspecified:
                    yield corefile.remark(
                        token.position,
                        "forward",
                        f"{token.text} is this server itself, so every query comes back to it until it times out; "
                        "write the address of another server, or the resolv.conf that the node's resolver reads",
                    )


@check("HS204")
def without_loop(objects: Objects) -> Iterator[Remark]:
    """Servers that do not detect that the node's resolv.conf refers to them."""
    for corefile, block, directive in _of_all_names(objects):
        token = next((each for each in directive.args[1:] if each.text.endswith(RESOLV_CONF)), None)
        if token is not None and directive_of(block, "loop") is None:
            yield corefile.remark(
                token.position,
                "forward",
                f"{token.text} may name a resolver of the node that asks this server again, and without the "
                "plugin loop that is not noticed; add loop",
            )


@check("HS206")
def one_upstream(objects: Objects) -> Iterator[Remark]:
    """A single upstream for all names."""
    for corefile, _, directive in _of_all_names(objects):
        upstreams = directive.args[1:]
        if len(upstreams) == 1 and _is_address(upstreams[0]):
            yield corefile.remark(
                upstreams[0].position,
                "forward",
                f"{upstreams[0].text} is the only upstream, so while it does not answer no name outside the "
                "cluster resolves; name a second one",
            )


@check("HS207")
def without_limit(objects: Objects) -> Iterator[Remark]:
    """No limit on the queries that wait for an upstream."""
    for corefile, _, directive in _of_all_names(objects):
        if property_of(directive, "max_concurrent") is None:
            yield corefile.remark(
                directive.name.position,
                "forward",
                "without max_concurrent, queries that wait for a slow upstream pile up until the memory limit is "
                "reached; write max_concurrent 1000, as kubeadm does",
            )


def _of_all_names(objects: Objects) -> Iterator[tuple[CorefileText, ServerBlock, Directive]]:
    """The `forward` directives for all names, each with its block and its Corefile."""
    for corefile in objects.corefiles:
        for block, directive in corefile.directives("forward"):
            if directive.args and directive.args[0].text == ".":
                yield corefile, block, directive


def _is_address(token: Token) -> bool:
    scheme, _, rest = token.text.rpartition("://")
    return split_ip_port(rest if scheme else token.text, DNS_PORT) is not None
