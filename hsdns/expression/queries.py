"""Functions of expressions that return properties of the query.

Path: view and template compile with NAMES and evaluate with functions_of() of each query.
Source: CoreDNS 1.14.7 plugin/pkg/expression, request/request.go.

read_expression() reads the rest of a line of the Corefile, with the positions of errors:
Rule: the words of a line are joined by single spaces, as CoreDNS does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, Final

from hsdns.chain import Request
from hsdns.corefile.tree import Line, Position, Token
from hsdns.expression.compiler import Names, Program, compile_expression
from hsdns.expression.tree import BOOL, INT, STRING, ExpressionError, Signature, signature
from hsdns.wire.encode import MAX_TCP_LEN, udp_limit
from hsdns.wire.iana import class_to_text, type_to_text


def read_expression(line: Line, tokens: Sequence[Token], names: Names) -> Program:
    """Compile the expression in these words of a line; raise CorefileError."""
    if not tokens:
        raise line.error(f'property "{line.name.text}" needs an expression, found nothing')
    text = " ".join(token.text for token in tokens)
    try:
        return compile_expression(text, names)
    except ExpressionError as error:
        raise _position(tokens, error.at).error(f"expression: {error.message}") from None


def _position(tokens: Sequence[Token], at: int) -> Position:
    """Return the position of a character of the joined text; that of its word if the word spans several lines."""
    begin = 0
    for token in tokens:
        end = begin + len(token.text)
        if at <= end or token is tokens[-1]:
            inside = max(0, min(at, end) - begin)
            if "\n" in token.text[:inside] or "\\" in token.text[:inside]:
                return token.position
            position = token.position
            return position._replace(column=position.column + inside + token.quoted)
        begin = end + 1
    raise AssertionError("there are no words")


NAMES: Final[dict[str, Signature]] = {
    "incidr": signature("string string", BOOL),
    "metadata": signature("string", STRING),
    "type": signature("", STRING),
    "name": signature("", STRING),
    "class": signature("", STRING),
    "proto": signature("", STRING),
    "size": signature("", INT),
    "client_ip": signature("", STRING),
    "port": signature("", STRING),
    "id": signature("", INT),
    "opcode": signature("", INT),
    "do": signature("", BOOL),
    "bufsize": signature("", INT),
    "server_ip": signature("", STRING),
    "server_port": signature("", STRING),
}


def functions_of(request: Request) -> Mapping[str, Callable[..., Any]]:
    """Return the functions for a query; values are computed only when they are called."""
    query = request.query

    def metadata(label: str) -> str:
        known = request.metadata.get(label) if request.metadata is not None else None
        return known() if known is not None else ""

    return {
        "incidr": incidr,
        "metadata": metadata,
        "type": lambda: type_to_text(query.qtype),
        "name": lambda: query.qname.lowered().to_text(),
        "class": lambda: class_to_text(query.qclass),
        "proto": lambda: request.protocol,
        "size": lambda: query.size,
        "client_ip": lambda: client_ip(request),
        "port": lambda: str(request.client.port),
        "id": lambda: query.id,
        "opcode": lambda: query.opcode,
        "do": lambda: query.do,
        "bufsize": lambda: bufsize(request),
        "server_ip": lambda: request.local.address.partition("%")[0],
        "server_port": lambda: str(request.local.port),
    }


def client_ip(request: Request) -> str:
    """Return the client's address without an IPv6 zone."""
    return request.client.address.partition("%")[0]


def bufsize(request: Request) -> int:
    """Return the client's limit of the reply in octets."""
    return MAX_TCP_LEN if request.protocol == "tcp" else udp_limit(request.query)


def incidr(address: object, cidr: object) -> bool:
    """Whether an address is in a network; raise ExpressionError if one of them is invalid."""
    if not isinstance(address, str) or not isinstance(cidr, str):
        raise ExpressionError("incidr takes two strings")
    try:
        found = ip_address(address)
        if "%" in address:
            raise ValueError
    except ValueError:
        raise ExpressionError(f'incidr: "{address[:80]}" is not an address') from None
    try:
        if "/" not in cidr:
            raise ValueError
        network = ip_network(cidr, strict=False)
    except ValueError:
        raise ExpressionError(f'incidr: "{cidr[:80]}" is not a network') from None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None and network.version == 4:
        found = found.ipv4_mapped
    return found in network
