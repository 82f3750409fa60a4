"""resolv.conf as each library reads it."""

from __future__ import annotations

from random import Random

import pytest

from hsdns.resolver import MODELS
from hsdns.resolver.resolv_conf import ResolvConf, write_resolv_conf

LONG = "search " + "a" * 248  # 255 octets


def read(resolver: str, text: str) -> ResolvConf:
    return MODELS[resolver](text, Random(0)).conf


def test_all_of_it() -> None:
    text = (
        "# a comment\nnameserver 10.96.0.10\nsearch old.test\ndomain older.test\n"
        "search shop.svc.cluster.local svc.cluster.local.\noptions ndots:5 timeout:2 attempts:4 trust-ad\n"
    )
    assert read("glibc", text) == ResolvConf(
        ("10.96.0.10",),
        ("shop.svc.cluster.local", "svc.cluster.local"),
        5,
        2,
        4,
        frozenset({"trust-ad"}),
        (),
    )


@pytest.mark.parametrize(
    ("resolver", "text", "field", "expected"),
    [
        ("glibc", "", "nameservers", ("127.0.0.1",)),
        ("glibc", "", "timeout", 5),
        ("c-ares", "", "timeout", 2),
        ("c-ares", "", "attempts", 3),
        ("glibc", "options timeout:99 attempts:99 ndots:99", "timeout", 30),
        ("glibc", "options timeout:99 attempts:99 ndots:99", "attempts", 5),
        ("musl", "options timeout:99 attempts:99 ndots:99", "timeout", 60),
        ("musl", "options timeout:99 attempts:99 ndots:99", "attempts", 10),
        ("glibc", "options ndots:99", "ndots", 15),
        ("glibc", "options timeout:0", "timeout", 1),
        ("go", "options single-request-reopen", "flags", {"single-request"}),
        ("c-ares", "nameserver 1.1.1.1\n" * 5, "nameservers", ("1.1.1.1",) * 5),
        ("musl", "nameserver 1.1.1.1\n" * 5, "nameservers", ("1.1.1.1",) * 3),
        ("glibc", LONG, "search", ("a" * 248,)),
        ("musl", LONG, "search", ()),
        ("musl", LONG[:-1], "search", ("a" * 247,)),
    ],
)
def test_read(resolver: str, text: str, field: str, expected: object) -> None:
    assert getattr(read(resolver, text), field) == expected


@pytest.mark.parametrize(
    ("resolver", "text", "remark"),
    [
        ("musl", "options edns0", "musl ignores the option edns0"),
        ("glibc", "options ndots:x", "glibc ignores the option ndots:x"),
        ("go", "nameserver 1.1.1.1\n" * 4, "Go uses the first 3 of 4 nameservers"),
        ("musl", LONG, "musl ignores the line search: it has 255 octets, more than 254"),
    ],
)
def test_remarks(resolver: str, text: str, remark: str) -> None:
    assert read(resolver, text).remarks == (remark,)


def test_write() -> None:
    text = write_resolv_conf(["10.96.0.10"], ["a.test", "b.test"], {"ndots": "5", "edns0": ""})
    assert text == "search a.test b.test\nnameserver 10.96.0.10\noptions ndots:5 edns0\n"
