from __future__ import annotations

import pytest

from hsdns.corefile.tree import CorefileError
from hsdns.expression.queries import NAMES, functions_of, incidr, read_expression
from hsdns.expression.tree import ExpressionError
from hsdns.wire.edns import Edns
from tests.support.plugins.requests import make_request
from tests.support.plugins.setup import directives


def read(text: str) -> str:
    """Compile the rest of the third line of a Corefile; return the text of the expression, or the error."""
    (line,) = directives(f"view a {{\n expr {text}\n}}")[0].lines
    try:
        return read_expression(line, line.args, NAMES).text
    except CorefileError as error:
        return str(error)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name()   ==  'a b'", "name() == 'a b'"),
        ('"any([1], # > 0)"', "any([1], # > 0)"),
        ("", 'Corefile:3:2: property "expr" needs an expression, found nothing'),
        (
            "size() ==   nme()",
            'Corefile:3:19: expression: function "nme" is not known; did you mean "name"?',
        ),
        (
            '"size() == nme()"',
            'Corefile:3:18: expression: function "nme" is not known; did you mean "name"?',
        ),
        ("size() ==", "Corefile:3:16: expression: found the end, expected a value"),
        (
            '"1 +\n nme()"',
            'Corefile:3:7: expression: function "nme" is not known; did you mean "name"?',
        ),
    ],
)
def test_read(text: str, expected: str) -> None:
    assert read(text) == expected


def test_what_they_say_of_a_query() -> None:
    request = make_request(
        "Web.Example.org.",
        "AAAA",
        qclass="CH",
        client="fe80::7%eth0",
        edns=Edns(1232, do=True),
        id=7,
    )
    functions = functions_of(request)
    assert set(functions) == set(NAMES)
    found = {name: functions[name]() for name in functions if NAMES[name].fits(0)}
    assert found == {
        "type": "AAAA",
        "name": "web.example.org.",
        "class": "CH",
        "proto": "udp",
        "size": 44,
        "client_ip": "fe80::7",
        "port": "40000",
        "id": 7,
        "opcode": 0,
        "do": True,
        "bufsize": 1232,
        "server_ip": "127.0.0.1",
        "server_port": "53",
    }


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({}, 512),
        ({"edns": Edns(100)}, 512),
        ({"edns": Edns(4096)}, 4096),
        ({"protocol": "tcp"}, 65535),
    ],
)
def test_bufsize(fields: dict[str, Edns], size: int) -> None:
    assert functions_of(make_request("a.", **fields))["bufsize"]() == size  # type: ignore[arg-type]  # fields by their names


def test_metadata() -> None:
    request = make_request("a.")
    assert functions_of(request)["metadata"]("a/b") == ""
    known = request.replace(metadata={"a/b": lambda: "x"})
    assert functions_of(known)["metadata"]("a/b") == "x"
    assert functions_of(known)["metadata"]("a/c") == ""


@pytest.mark.parametrize(
    ("address", "network", "inside"),
    [
        ("192.0.2.1", "192.0.2.0/24", True),
        ("192.0.3.1", "192.0.2.0/24", False),
        ("192.0.2.1", "192.0.2.77/24", True),
        ("2001:db8::1", "2001:DB8::/32", True),
        ("2001:db8::1", "192.0.2.0/24", False),
        ("192.0.2.1", "::/0", False),
        ("::ffff:192.0.2.1", "192.0.2.0/24", True),
    ],
)
def test_incidr(address: str, network: str, inside: bool) -> None:
    assert incidr(address, network) is inside


@pytest.mark.parametrize(
    ("address", "network", "reason"),
    [
        ("x", "10.0.0.0/8", 'incidr: "x" is not an address'),
        ("fe80::1%eth0", "fe80::/10", 'incidr: "fe80::1%eth0" is not an address'),
        ("10.0.0.1", "10.0.0.0", 'incidr: "10.0.0.0" is not a network'),
        ("10.0.0.1", "10.0.0.0/33", 'incidr: "10.0.0.0/33" is not a network'),
        (1, "10.0.0.0/8", "incidr takes two strings"),
    ],
)
def test_incidr_fails(address: object, network: object, reason: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        incidr(address, network)
    assert caught.value.message == reason
