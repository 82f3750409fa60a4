"""Signing and verification against dnspython, which implements both independently."""

from __future__ import annotations

import base64

import dns.flags
import dns.message
import dns.tsig
import dns.tsigkeyring
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.wire.decode import decode
from hsdns.wire.encode import encode
from hsdns.wire.message import Reply
from hsdns.wire.name import Name
from hsdns.wire.tsig import (
    BADKEY,
    BADSIG,
    BADTIME,
    NO_ERROR,
    BadRecord,
    ReplySigner,
    read_signature,
    verify,
)
from tests.support.plugins.requests import rr

SECRET = "X28hl0BOfAL5G0jsmJWSacrwn7YRm2f6U5brnzwWEus="
KEY = Name.from_text("key.example.")
SECRETS = {KEY: base64.b64decode(SECRET)}
NOW = 1_700_000_000


def query(
    monkeypatch: pytest.MonkeyPatch,
    *,
    key: str = "key.example.",
    secret: str = SECRET,
    algorithm: object = dns.tsig.HMAC_SHA256,
    signed: int = NOW,
    edns: bool = False,
) -> dns.message.Message:
    """Make a signed query; its wire form is made at `signed`."""
    monkeypatch.setattr("time.time", lambda: signed)
    message = dns.message.make_query("example.org.", "SOA", use_edns=edns)
    message.use_tsig(dns.tsigkeyring.from_text({key: secret}), key, algorithm=algorithm)  # type: ignore[arg-type]  # dnspython takes names too
    message.to_wire()
    return message


@pytest.mark.parametrize(
    ("options", "error"),
    [
        pytest.param({}, NO_ERROR, id="good"),
        pytest.param({"edns": True}, NO_ERROR, id="after-an-opt"),
        pytest.param({"key": "KEY.Example."}, NO_ERROR, id="key-in-another-case"),
        pytest.param({"algorithm": dns.tsig.HMAC_SHA1}, NO_ERROR, id="sha1"),
        pytest.param({"algorithm": dns.tsig.HMAC_SHA512}, NO_ERROR, id="sha512"),
        pytest.param({"algorithm": dns.tsig.HMAC_MD5}, BADSIG, id="md5"),
        pytest.param({"algorithm": dns.tsig.HMAC_SHA256_128}, BADSIG, id="truncated"),
        pytest.param({"secret": "AAAA"}, BADSIG, id="other-secret"),
        pytest.param({"key": "other.example."}, BADKEY, id="other-key"),
        pytest.param({"signed": NOW - 300}, NO_ERROR, id="just-in-time"),
        pytest.param({"signed": NOW - 301}, BADTIME, id="late"),
        pytest.param({"signed": NOW + 301}, BADTIME, id="early"),
        pytest.param({"signed": NOW - 301, "secret": "AAAA"}, BADSIG, id="late-and-wrong"),
    ],
)
def test_verify(options: dict[str, object], error: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = decode(query(monkeypatch, **options).to_wire()).whole  # type: ignore[arg-type]  # a table of options
    found = read_signature(whole)
    assert found is not None
    assert verify(whole, found, SECRETS, NOW) == error


def test_any_changed_octet_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = query(monkeypatch).to_wire()
    found = read_signature(whole)
    assert found is not None
    for at in range(2, found.start):  # the ID may change on the way (RFC 8945 section 4.3.1)
        changed = whole[:at] + bytes((whole[at] ^ 1,)) + whole[at + 1 :]
        if changed[10:12] != b"\0\0":
            assert verify(changed, found, SECRETS, NOW) == BADSIG


def answered(message: dns.message.Message, error: int, wall: int, *replies: Reply) -> list[bytes]:
    asked = decode(message.to_wire())
    found = read_signature(asked.whole)
    assert found is not None
    signer = ReplySigner(found, SECRETS.get(found.key), error, lambda: wall)
    made = [signer(encode(asked, reply, 65535 - signer.room)) for reply in replies]
    unsigned = [encode(asked, reply, 65535) for reply in replies]
    assert all(
        len(after) - len(before) <= signer.room
        for after, before in zip(made, unsigned, strict=True)
    )
    return made


@pytest.mark.parametrize("edns", [False, True])
@pytest.mark.parametrize(
    "algorithm", [dns.tsig.HMAC_SHA1, dns.tsig.HMAC_SHA256, dns.tsig.HMAC_SHA512]
)
def test_a_signed_reply(algorithm: object, edns: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    message = query(monkeypatch, algorithm=algorithm, edns=edns)
    record = rr("example.org. 1 IN A 192.0.2.1")
    (wire,) = answered(message, NO_ERROR, NOW, Reply(answer=(record,), authority=(record,)))
    reply = dns.message.from_wire(wire, keyring=message.keyring, request_mac=message.mac)
    assert wire.count(bytes.fromhex("00fa 00ff 00000000")) == 1, "type, class and a TTL of 0"
    assert (reply.tsig_error, reply.edns) == (0, 0 if edns else -1)
    assert (len(reply.answer), len(reply.authority)) == (1, 1)


def test_messages_are_signed_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    message = query(monkeypatch)
    replies = [Reply(answer=(rr(f"example.org. {ttl} IN A 192.0.2.1"),)) for ttl in range(4)]
    context = None
    for index, wire in enumerate(answered(message, NO_ERROR, NOW, *replies)):
        reply = dns.message.from_wire(
            wire, keyring=message.keyring, request_mac=message.mac, multi=True, tsig_ctx=context
        )
        context = reply.tsig_ctx
        assert reply.answer[0].ttl == index


@pytest.mark.parametrize(
    ("error", "options", "signs", "raised"),
    [
        pytest.param(BADKEY, {"key": "other.example."}, False, dns.tsig.PeerBadKey, id="badkey"),
        pytest.param(BADSIG, {"secret": "AAAA"}, False, dns.tsig.PeerBadSignature, id="badsig"),
        pytest.param(BADTIME, {"signed": NOW - 1000}, True, dns.tsig.PeerBadTime, id="badtime"),
        pytest.param(
            BADTIME,
            {"signed": NOW - 1000, "algorithm": dns.tsig.HMAC_SHA512},
            True,
            dns.tsig.PeerBadTime,
            id="longest",
        ),
    ],
)
def test_errors(
    error: int,
    options: dict[str, object],
    signs: bool,
    raised: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = query(monkeypatch, **options)  # type: ignore[arg-type]  # a table of options
    (wire,) = answered(message, error, NOW, Reply(rcode=9))
    reply = dns.message.from_wire(wire, keyring=False)
    assert reply.tsig is not None
    rdata = reply.tsig[0]
    assert (rdata.error, bool(rdata.mac), rdata.fudge) == (error, signs, 300)
    late = (NOW - 1000, NOW.to_bytes(6, "big"))
    assert (rdata.time_signed, rdata.other) == (late if signs else (0, b""))
    with pytest.raises(raised):
        dns.message.from_wire(wire, keyring=message.keyring, request_mac=message.mac)


def test_no_signature() -> None:
    assert read_signature(b"") is None
    assert (
        decode(dns.message.make_query("example.org.", "SOA", use_edns=True).to_wire()).whole == b""
    )


def test_only_the_last_record_is_a_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = query(monkeypatch).to_wire()
    text = whole[:10] + b"\0\2" + whole[12:] + bytes.fromhex("00 0010 0001 00000000 0002 0141")
    assert read_signature(text) is None
    assert decode(text).whole == b""


@pytest.mark.parametrize("counts", ["0000 0001 0001", "0100 0000 0000", "0000 0000 0101"])
def test_it_is_the_last_record_whatever_the_counts(
    counts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts above the records are no fault, as with miekg/dns; RDATA and TTL may be long."""
    whole = query(monkeypatch).to_wire()
    found = read_signature(whole)
    assert found is not None
    other = b"\xc0\x0c" + bytes.fromhex("0010 0001 01020304 012c") + bytes(300)
    longer = (
        whole[:6] + bytes.fromhex(counts) + whole[12 : found.start] + other + whole[found.start :]
    )
    assert read_signature(longer) == found._replace(start=found.start + len(other))


def test_records_that_are_not_counted_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = query(monkeypatch).to_wire()
    found = read_signature(whole)
    assert found is not None
    assert read_signature(whole + whole[found.start :].replace(b"\0\xfa", b"\0\x10", 1)) == found
    with pytest.raises(BadRecord, match="the message has no records"):
        read_signature(whole[:6] + bytes(6) + whole[12:])


@given(st.binary(max_size=120))
def test_any_octets_are_read_or_not(tail: bytes) -> None:
    head = bytes.fromhex("0001 0000 0001 0000 0000 0001 00 0006 0001 0362616400 00fa 00ff 00000000")
    try:
        found = read_signature(head + len(tail).to_bytes(2, "big") + tail)
    except BadRecord:
        return
    assert found is not None
    assert verify(head, found, {}, NOW) == BADKEY
