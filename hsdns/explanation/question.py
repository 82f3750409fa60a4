"""The client's flags, or parameters of a page: the name to look up, and the resolvers.

Path: explanation/cli.py, server/control/explain.py -> here -> client.py creates a Client from it.
Rule: this is cheap to import, because a command that uses a server's explanation needs only this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple

from hsdns.cluster.address import reverse_name
from hsdns.corefile.tree import did_you_mean
from hsdns.errors import OperatorError
from hsdns.resolver import MODELS, looks_up, usual
from hsdns.resolver.forwarders import FORWARDERS
from hsdns.resolver.resolv_conf import with_ndots
from hsdns.wire import is_address
from hsdns.wire.iana import ADDRESSES, RRType, type_from_text, type_to_text
from hsdns.wire.name import Name


class QuestionError(OperatorError, ValueError):
    """Why a lookup cannot be explained, as a sentence for the operator."""


def read_question(name: str, rrtype: str = "") -> tuple[Name, int]:
    """A name and a type, A if it is empty; an IP address is looked up in reverse.  Raise QuestionError."""
    words = rrtype.upper()
    try:
        address = ip_address(name)
    except ValueError:
        try:
            qname = Name.from_text(name)
        except ValueError as error:
            raise QuestionError(f'"{name}" is not a domain name: {error}') from None
    else:
        qname, words = reverse_name(address.packed), words or "PTR"
    return qname, _read_type(words or "A")


def _read_type(text: str) -> int:
    try:
        return type_from_text(text.upper())
    except ValueError:
        raise QuestionError(
            f'"{text}" is not a record type; try A, AAAA, SRV, PTR or CNAME'
        ) from None


TYPES: Final = ADDRESSES


# Parameters of /v1/explain, each with its field of LookupQuestion; they have the names of the flags.
PARAMETERS: Final = {
    "from": "pod",
    "program": "resolvers",
    "through": "through",
    "resolv-conf": "resolv_conf",
    "search": "search",
    "ndots": "ndots",
    "cluster-dns": "cluster_dns",
}
MOST_NDOTS: Final = 15  # resolv.conf(5)


class LookupQuestion(NamedTuple):
    """A lookup of a program.

    `pod` is NAMESPACE/NAME, or empty; `resolv_conf` is the text of the program's file, or with a pod that of its node.
    `search` (comma-separated) and `ndots` override its settings.  `cluster_dns` is the address of the cluster's DNS as
    the kubelet writes it, empty for the address of the Service.  `through` names a forwarder between, or is empty.
    """

    name: str
    types: tuple[int, ...]
    resolvers: tuple[str, ...]
    pod: str = ""
    resolv_conf: str = ""
    search: str = ""
    ndots: str = ""
    cluster_dns: str = ""
    through: str = ""

    @property
    def added(self) -> str:
        """Lines that override the resolv.conf: all resolvers use the last line of a kind."""
        return overridden("", self.search, self.ndots)

    def parameters(self) -> dict[str, str]:
        """The parameters of /v1/explain."""
        chosen = self.resolvers[0] if len(self.resolvers) == 1 else ""
        fields = {**self._asdict(), "resolvers": chosen}
        found = {name: str(fields[field]) for name, field in PARAMETERS.items() if fields[field]}
        rrtype = type_to_text(self.types[0]) if len(self.types) == 1 else ""
        return {"name": self.name, **({"type": rrtype} if rrtype else {}), **found}


def from_parameters(given: Mapping[str, str]) -> LookupQuestion:
    """Read the lookup from parameters; raise QuestionError."""
    ndots = given.get("ndots", "")
    if ndots and not (ndots.isascii() and ndots.isdigit() and int(ndots) <= MOST_NDOTS):
        raise QuestionError(f'ndots is a number from 0 to {MOST_NDOTS}, found "{ndots}"')
    name, types = read_name(given["name"], given.get("type", ""))
    return LookupQuestion(
        name,
        types,
        read_resolvers(given.get("program", ""), types),
        given.get("from", ""),
        given.get("resolv-conf", ""),
        given.get("search", ""),
        ndots,
        given.get("cluster-dns", ""),
        read_through(given.get("through", "")),
    )


def overridden(text: str, search: str, ndots: str) -> str:
    """Set other search domains and ndots in a resolv.conf, unless these are empty."""
    lines = [text.rstrip("\n")]
    if search:
        lines.append("search " + " ".join(search.split(",")))
    found = "\n".join(lines).lstrip("\n") + "\n" if any(lines) else ""
    return with_ndots(found, ndots) if ndots else found


def read_name(name: str, rrtype: str = "") -> tuple[str, tuple[int, ...]]:
    """A name and the types that a program looks up, A and AAAA if none is given; raise QuestionError."""
    if is_address(name) and rrtype.upper() == "PTR":
        return reverse_name(ip_address(name).packed).to_text(), (RRType.PTR,)
    if is_address(name):
        raise QuestionError(
            f"{name} is an address, which a resolver returns without a query; "
            "add the type PTR, and its reverse name is looked up"
        )
    try:
        if not Name.from_text(name).labels:
            raise ValueError("it is the root")
        name.encode("ascii")
    except ValueError as error:
        raise QuestionError(f'"{name}" is not a name that can be looked up: {error}') from None
    if not rrtype:
        return name, TYPES
    return name, (_read_type(rrtype),)


def read_through(chosen: str) -> str:
    """The name of a forwarder, or nothing; raise QuestionError."""
    if chosen and chosen not in FORWARDERS:
        hint = did_you_mean(chosen, FORWARDERS) or f"; there are {', '.join(FORWARDERS)}"
        raise QuestionError(f'there is no model of a forwarder "{chosen}"{hint}')
    return chosen


def read_resolvers(chosen: str, types: Sequence[int]) -> tuple[str, ...]:
    """The programs with a name, the usual ones for these types if it is empty; raise QuestionError."""
    if not chosen:
        return usual(types)
    if chosen not in MODELS:
        hint = did_you_mean(chosen, MODELS) or f"; there are {', '.join(MODELS)}"
        raise QuestionError(f'there is no model of a program "{chosen}"{hint}')
    if not looks_up(chosen, types):
        word, own = type_to_text(types[0]), ", ".join(map(type_to_text, MODELS[chosen].types))
        others = ", ".join(each for each in MODELS if looks_up(each, types))
        raise QuestionError(f"{chosen} looks up {own}, not {word}; programs that do: {others}")
    return (chosen,)
