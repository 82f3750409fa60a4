"""Values that the API server refuses: in names, labels, addresses and ports.

Path: document.py and validation.py -> here -> Refused, which sources/manifest_file turns into a line.
Source: k8s.io/apimachinery pkg/util/validation and k8s.io/kubernetes pkg/apis/core/validation, 1.36.
Rule: where versions of Kubernetes differ, the value is accepted: names of Services may begin with a digit, those of
        StatefulSets may have dots, and an IPv4 address may be written as an IPv4-mapped one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from hsdns.cluster.address import pack_address

PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
MAX_PORT: Final = 65_535
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_KEY = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PORT_NAME = re.compile(r"(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")

# By the number of octets: addresses that mean something else on each host or link.
_SPECIAL: Final[dict[int, Sequence[tuple[Callable[[bytes], bool], str]]]] = {
    4: (
        (lambda octets: octets == bytes(4), "the unspecified address"),
        (lambda octets: octets[0] == 127, "a loopback address"),
        (lambda octets: octets[:2] == b"\xa9\xfe", "a link-local address"),
        (lambda octets: octets[:3] == b"\xe0\0\0", "a link-local multicast address"),
    ),
    16: (
        (lambda octets: octets == bytes(16), "the unspecified address"),
        (lambda octets: octets == bytes(15) + b"\1", "a loopback address"),
        (lambda octets: octets[0] == 0xFE and octets[1] >> 6 == 2, "a link-local address"),
        (
            lambda octets: octets[0] == 0xFF and octets[1] & 15 == 2,
            "a link-local multicast address",
        ),
    ),
}


class Refused(Exception):
    """Invalid content of a document, without its `file:line`; `field` is a path such as `spec.ports[0].port`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


def check_label(field: str, text: str) -> None:
    """Check a DNS label (RFC 1123)."""
    if not _LABEL.fullmatch(text):
        raise Refused(
            field,
            f'"{text}" is not a DNS label; use at most 63 lower-case letters, digits and "-", without "-" at the ends',
        )


def check_name(field: str, text: str) -> None:
    """Check the name of an object whose kind allows dots in it."""
    if not _is_domain(text):
        raise Refused(
            field,
            f'"{text}" is not a valid name; use lower-case letters, digits, "-" and "."',
        )


def check_domain(field: str, text: str) -> None:
    """Check a domain name, with or without a final dot."""
    if _is_domain(text.removesuffix(".")):
        return
    remedy = 'use lower-case letters, digits, "-" and "."'
    if "://" in text or "/" in text:
        remedy = "write only the host, without scheme and path"
    elif re.fullmatch(r".*:[0-9]+", text):
        remedy = "write it without the port"
    elif _is_domain(text.lower().removesuffix(".")):
        remedy = "write it in lower case"
    raise Refused(field, f'"{text}" is not a domain name; {remedy}')


def check_labels(field: str, labels: Mapping[str, str] | None) -> None:
    """Check the keys and values of labels or of a selector."""
    for key, value in (labels or {}).items():
        prefix, slash, name = key.rpartition("/")
        if not _KEY.fullmatch(name) or (slash and not _is_domain(prefix)):
            raise Refused(
                f"{field}[{key}]",
                f'"{key}" is not the key of a label; write a name of at most 63 letters, digits, "-", "_" and ".", '
                'with or without "DOMAIN/" before it',
            )
        if value and not _KEY.fullmatch(value):
            raise Refused(
                f"{field}[{key}]",
                f'"{value}" is not the value of a label; use at most 63 letters, digits, "-", "_" and ".", '
                "with a letter or digit at the ends",
            )


def check_choice(field: str, text: str, what: str, choices: Sequence[str]) -> None:
    """Check that a text is one of several words; `what` has an article."""
    if text not in choices:
        listed = f"{', '.join(choices[:-1])} or {choices[-1]}"
        raise Refused(field, f'"{text}" is not {what}; write {listed}')


def check_address(field: str, text: str, remedy: str = "write one such as 10.96.0.10") -> None:
    """Check an IP address of any kind."""
    _packed(field, text, remedy)


def check_endpoint_address(field: str, text: str, family: str = "") -> None:
    """Check the address of an endpoint: of one family if it is given, and not only for this host or link."""
    octets = _packed(field, text, "write one such as 10.244.0.10")
    if family and family != ("IPv4" if len(octets) == 4 else "IPv6"):
        raise Refused(field, f'"{text}" is not an {family} address; correct it or the address type')
    for is_of, what in _SPECIAL[len(octets)]:
        if is_of(octets):
            raise Refused(
                field,
                f'"{text}" is {what}, which no endpoint may have; write the address that clients reach',
            )


def check_port(field: str, number: int, lowest: int = 1) -> None:
    """Check the number of a port."""
    if not lowest <= number <= MAX_PORT:
        raise Refused(
            field, f"{number} is not a port number; write one from {lowest} to {MAX_PORT}"
        )


def check_port_name(field: str, text: str) -> None:
    """Check the name of a container's port (RFC 6335)."""
    if not _PORT_NAME.fullmatch(text):
        raise Refused(
            field,
            f'"{text}" is not the name of a container port; use at most 15 lower-case letters, digits and single "-", '
            "with at least one letter",
        )


def check_unique(field: str, text: str, before: Collection[str], what: str) -> None:
    """Check that a text is not among those before it."""
    if text in before:
        raise Refused(field, f'{what} "{text}" is used twice; choose another')


def _is_domain(text: str) -> bool:
    return len(text) <= 253 and _DOMAIN.fullmatch(text) is not None


def _packed(field: str, text: str, remedy: str) -> bytes:
    octets = pack_address(text)
    if octets is None:
        raise Refused(field, f'"{text}" is not an IP address; {remedy}')
    return octets
