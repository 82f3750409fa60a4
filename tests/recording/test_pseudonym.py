"""Names and addresses that stand for others."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.cluster.address import dashed, pack_address, read_address
from hsdns.cluster.reverse import address_of
from hsdns.recording.anonymise import Pseudonyms
from hsdns.wire.name import Name
from tests import strategies

ZONES = tuple(map(Name.from_text, ("cluster.local.", "in-addr.arpa.", "ip6.arpa.")))
LABEL = re.compile(r"x[a-z2-7]{12}")
packed = st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16)


def make(key: bytes = b"k", zones: tuple[Name, ...] = ZONES) -> Pseudonyms:
    return Pseudonyms(key, zones)


def of(text: str, found: Pseudonyms | None = None) -> str:
    return (found or make()).name(Name.from_text(text)).to_text()


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("web.shop.svc.cluster.local.", "x.x.svc.cluster.local."),
        ("_http._tcp.web.shop.svc.cluster.local.", "_x._tcp.x.x.svc.cluster.local."),
        ("eu-1.prefer._zone.web.shop.svc.cluster.local.", "x.prefer._zone.x.x.svc.cluster.local."),
        ("ns.dns.cluster.local.", "ns.dns.cluster.local."),
        ("cluster.local.", "cluster.local."),
        ("api.example.org.", "x.x.x."),
        ("api.example.org.svc.cluster.local.", "x.x.x.svc.cluster.local."),
        ("*.shop.svc.cluster.local.", "*.x.svc.cluster.local."),
        ("in-addr.arpa.", "in-addr.arpa."),
        ("10.in-addr.arpa.", "x.in-addr.arpa."),
        ("svc.in-addr.arpa.", "svc.in-addr.arpa."),
        (f"{'a.' * 31}ip6.arpa.", "x.ip6.arpa."),
        (f"{'a.' * 100}example.org.", "x."),
        (f"{'a.' * 100}svc.cluster.local.", "x.cluster.local."),
        (".", "."),
    ],
)
def test_the_form_of_a_name_stays(text: str, form: str) -> None:
    assert LABEL.sub("x", of(text)) == form


def test_the_same_becomes_the_same() -> None:
    found = make()
    assert of("Web.shop.svc.cluster.local.", found) == of("web.SHOP.svc.cluster.local.", found)
    assert of("web.shop.svc.cluster.local.", found).split(".")[0] == found.text("web")
    assert of("_web.test.", found).split(".")[0] == f"_{found.text('web')}"
    assert of("web.", make(b"other")) != of("web.", found)


@given(strategies.related_names(), strategies.related_names())
def test_other_names_become_other_names(one: Name, other: Name) -> None:
    found = make()
    assert (found.name(one) == found.name(other)) is (one == other)


@given(st.lists(packed, unique=True, max_size=40))
def test_addresses(addresses: list[bytes]) -> None:
    """Each becomes another one of its family, in all the forms that it has."""
    found = make()
    others = {}
    for each in addresses:
        text = str(ip_address(each))
        canonical = read_address(text)
        assert canonical is not None
        other = found.address(text)
        assert other is not None
        read = read_address(other)
        assert read is not None
        assert (len(read[0]), read[1]) == (len(canonical[0]), canonical[1])
        if any(canonical[0]):
            own = ip_network("10.0.0.0/8" if len(read[0]) == 4 else "fd00::/8")
            assert ip_address(read[0]) in own
        if not canonical[1]:
            continue  # IPv4-mapped
        others[canonical[0]] = read[0]
        assert found.label(dashed(each)) == dashed(read[0])
        name = f"{'.'.join(map(str, reversed(each)))}.in-addr.arpa." if len(each) == 4 else f"{'.'.join(reversed(each.hex()))}.ip6.arpa."  # fmt: skip
        assert address_of(Name.from_text(of(name, found))) == (read[0] if any(each) else address_of(Name.from_text(of(name, found))))  # fmt: skip
    assert len(set(others.values())) == len(others)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("2001:DB8::5", r"FD[0-9A-F:]+"),
        ("2001:0db8::5", r"fd..:00..(:[0-9a-f]{4}){6}"),
        ("::ffff:192.0.2.1", r"::ffff:10(\.\d+){3}"),
        ("::ffff:c000:201", r"::ffff:0a..:...."),
        ("fd00::", r"fd[0-9a-f:]+::"),
        ("fd00::0", r"fd[0-9a-f:]+::0"),
        ("0.0.0.0", r"0\.0\.0\.0"),
        ("::", "::"),
    ],
)
def test_the_form_of_an_address_stays(text: str, form: str) -> None:
    found = make()
    other = found.address(text)
    assert other is not None
    assert re.fullmatch(form, other)
    same, canonical = read_address(other), pack_address(found.address(str(ip_address(pack_address(text) or b""))) or "")  # fmt: skip
    assert same is not None
    assert same[0] == canonical
    assert same[1] is (read_address(text) or (b"", None))[1]


@pytest.mark.parametrize("text", ["10.0.0", "fe80::1%eth0", "None", "", "010.0.0.1", "a..b"])
def test_text_that_is_no_address_stays_none(text: str) -> None:
    found = make()
    assert found.address(text) is None
    assert read_address(found.host(text)) is None
    assert (found.host(text) == "") is (text == "")


def test_what_a_served_reverse_zone_has_of_an_address_stays() -> None:
    zones = tuple(map(Name.from_text, ("2.0.192.in-addr.arpa.", "168.192.in-addr.arpa.", "8.b.d.0.1.0.0.2.ip6.arpa.", "x.ip6.arpa.")))  # fmt: skip
    found = make(zones=zones)
    for text, begin in [("192.0.2.7", "192.0.2."), ("192.168.1.1", "192.168."), ("8.8.8.8", "10."), ("2001:db8::1", "2001:db8:")]:  # fmt: skip
        assert (found.address(text) or "").startswith(begin)
    every = {found.address(f"192.0.2.{last}") for last in range(256)}
    assert len(every) == 256
    assert of("1.168.192.in-addr.arpa.", found).endswith(".168.192.in-addr.arpa.")


def test_a_label_that_is_too_long_stays_so() -> None:
    found = make()
    assert len(found.text("y" * 64)) == 64
    assert len(found.text("y" * 63)) == 13
    assert found.text("y" * 64 + ".org").count(".") == 1


def test_a_target_is_a_label_too() -> None:
    found = make()
    other = found.target("db.Example.org")
    assert other.count(".") == 2
    assert found.label(b"db-example-org").decode() == other.replace(".", "-")


def test_a_name_of_an_object_with_many_labels() -> None:
    assert len(make().text("a." * 100 + "b")) < 254
    assert LABEL.fullmatch(make().text("a." * 100 + "b").rstrip("."))


def test_text_that_is_no_name() -> None:
    assert LABEL.fullmatch(make().opaque("app.kubernetes.io/name"))
