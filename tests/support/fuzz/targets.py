"""What is fuzzed: the decoders of what upstreams, clients of DNS over HTTPS and API servers send.

Path: run.py -> here -> hsdns.
Rule 1: a decoder raises nothing but the error that its docstring declares.
Rule 2: what is decoded can be encoded, and is the same when that is decoded again.
Rule 3: what is kept of an input is bounded by its length, or by the limits of the module.
"""

from __future__ import annotations

import contextlib
from typing import Final

import msgspec

from hsdns.apiserver import resource
from hsdns.apiserver.watch_event import (
    MalformedEvent,
    ProtobufEvents,
    decode_event,
    decode_page,
    decode_status,
    read_protobuf_page,
    status_text,
)
from hsdns.cluster.objects import Deleted, Object, Service, Synced, Upserted
from hsdns.cluster.read_object import READ, upserted
from hsdns.cluster.store import Store, StoreSettings
from hsdns.fastpath import IMPLEMENTATION
from hsdns.http2 import PREFACE, SETTINGS, frame, split
from hsdns.plugins.cache.store import pack, unpack
from hsdns.server.http.doh import BadRequest, make_reply, read_query, read_request
from hsdns.server.http.doh_http2 import MAX_STREAMS, Http2
from hsdns.server.http.request import Response
from hsdns.wire.decode import BadReply, decode_header, decode_reply
from hsdns.wire.edns import Edns
from hsdns.wire.encode import MAX_TCP_LEN, encode
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, Query, Reply
from hsdns.wire.name import Name
from tests.support.fuzz.fuzzer import Target

QUERY: Final = Query.ask(Name.from_text("www.example.org"), RRType.A, edns=Edns(1232))
_PIECES = 16  # of an input on a connection at most: more of them cost time and reach nothing new
_AMPLIFICATION = 64  # octets of names and RDATA for one of the message: names are uncompressed
_RESOURCES: Final = (
    resource.SERVICES,
    resource.ENDPOINT_SLICES,
    resource.NAMESPACES,
    resource.PODS,
    resource.SERVICE_IMPORTS,
)


def check_reply(octets: bytes) -> None:
    """A reply of an upstream: octets from the ID on."""
    try:
        reply = decode_reply(octets, QUERY)
    except BadReply as bad:
        if bad.is_truncated and len(octets) >= 12:
            encode(QUERY, decode_header(octets), MAX_TCP_LEN)
        return
    held = sum(len(record.owner.wire) + len(record.rdata) for record in _records(reply))
    assert held <= _AMPLIFICATION * len(octets), f"{held} octets are kept of {len(octets)}"
    written = encode(QUERY, reply, MAX_TCP_LEN)
    assert len(written) <= MAX_TCP_LEN
    again = decode_reply(written, QUERY)
    if again.tc == reply.tc:
        assert _content(again) == _content(reply)
        assert again.rcode == reply.rcode
        assert again.edns_options == (reply.edns_options or ())
    for limit in (512, 1232):
        short = encode(QUERY, reply, limit)
        assert len(short) <= limit
        decode_reply(short, QUERY)
    assert _content(unpack(pack(reply), 5, reply)) == _content(reply, ttl=5)


def _records(reply: Reply) -> tuple[RR, ...]:
    return (*reply.answer, *reply.authority, *reply.additional)


def _content(
    reply: Reply, ttl: int | None = None
) -> list[list[tuple[bytes, int, int, bytes, int]]]:
    """The records of each section; the case of owners depends on compression."""
    return [
        [
            (
                each.owner.lower,
                each.rrtype,
                each.ttl if ttl is None else ttl,
                each.rdata,
                each.rrclass,
            )
            for each in section
        ]
        for section in (reply.answer, reply.authority, reply.additional)
    ]


def check_http2(octets: bytes) -> None:
    """What a client sends on an HTTP/2 connection after its first SETTINGS; the first octet says in pieces of which length."""
    piece = max(1 + octets[0], len(octets) // _PIECES) if octets else 1
    now, requests, out = 0.0, 0, bytearray()
    connection = Http2(now)
    data = PREFACE + frame(SETTINGS, 0, 0) + octets[1:]
    for at in range(0, len(data), piece):
        now += 0.001
        connection.feed(data[at : at + piece], now)
        while connection.has_waiting:
            request = connection.step()
            if request is not None:
                requests += 1
                reply = _http_reply(request.method, request.target, request.body)
                connection.reply(request.stream, reply, now, head_only=request.method == "HEAD")
        out += connection.take_out()
        if connection.is_over:
            break
    connection.end()
    out += connection.take_out()
    assert requests <= len(data) // 9
    assert len(connection.streams) <= MAX_STREAMS
    split(out)
    assert not out, "whole frames"


def _http_reply(method: str, target: str, body: bytes | None) -> Response:
    try:
        query = read_query(read_request(method, target, body))
    except BadRequest as bad:
        return bad.reply
    return make_reply(query, encode(query, Reply(), MAX_TCP_LEN))


def check_event(octets: bytes) -> None:
    """A line of a watch, a page of a list and the body of a refusal; the first octet says of which kind of object."""
    kind = _RESOURCES[octets[0] % len(_RESOURCES)] if octets else _RESOURCES[0]
    data = octets[1:]
    objects: list[Object] = []
    try:
        event = decode_event(data, kind)
    except MalformedEvent:
        pass
    else:
        objects += [event.object] if isinstance(event.object, kind.type) else []
        assert event.key[1] or event.type in ("BOOKMARK", "ERROR")
    with contextlib.suppress(MalformedEvent):
        found = [each.object for each in decode_page(data, kind).events]
        objects += [each for each in found if isinstance(each, kind.type)]
    decode_status(data.decode(errors="replace"), 403)
    store = Store(
        StoreSettings(endpoint_pod_names=True, zonal=True, multicluster=True, pod_labels=True),
        wall=lambda: 0.0,
        warn=lambda sentence: None,
    )
    for each in objects:
        written = msgspec.json.encode(each)
        assert msgspec.json.decode(written, type=kind.type) == each
        _apply(store, each)


def check_protobuf(octets: bytes) -> None:
    """The frames of a watch in protobuf, a page and a Status; the first octet says of which kind of object."""
    if IMPLEMENTATION != "rust":
        return  # it is not asked for
    kind = _RESOURCES[octets[0] % 4] if octets else _RESOURCES[0]
    data = octets[1:]
    events = ProtobufEvents(kind, limit=2000)
    found = []
    with contextlib.suppress(MalformedEvent):
        for at in range(0, len(data), max(1, len(data) // _PIECES)):
            found += list(events.feed(data[at : at + max(1, len(data) // _PIECES)]))
    with contextlib.suppress(MalformedEvent):
        found += list(read_protobuf_page(data, kind).events)
    status_text(data)
    stores = [
        Store(StoreSettings(endpoint_pod_names=True), wall=lambda: 0.0, warn=lambda sentence: None)
        for _ in range(2)
    ]
    for event in found:
        each = event.object
        assert event.key[1] or event.type in ("BOOKMARK", "ERROR")
        if isinstance(each, READ):
            stores[0].apply([upserted(each)])
            stores[1].apply([Upserted(each.whole)])
        elif each is not None:
            _apply(stores[0], each)
            _apply(stores[1], each)
    values = [{key: each.slices for key, each in store.services.values.items()} for store in stores]
    assert values[0] == values[1]


def _apply(store: Store, found: Object) -> None:
    """Apply an object, its Service, and the end of both."""
    labels = found.metadata.labels or {}
    owner = labels.get("kubernetes.io/service-name", found.metadata.name)
    meta = msgspec.structs.replace(found.metadata, name=owner)
    store.apply([Upserted(Service(meta)), Upserted(found), Synced()])
    store.apply([Upserted(found)])
    store.apply([Deleted(found), Deleted(Service(meta))])


TARGETS: Final = (
    Target(
        "reply",
        check_reply,
        ("hsdns/wire/",),
        (
            b"\xc0\x0c", b"\xc0\x00", b"\xff\xff", b"\x3f", b"\0\1\0\1", b"\0\x06\0\1", b"\0\x29", b"\0\x05\0\1",
            b"\0\x21\0\1", b"\0\x23\0\1", b"\0\x0f\0\1", b"\0\x2e\0\1", b"\0\x41\0\1", b"\0\xff", b"\0\0\0\0\0\x04",
        ),
        1500,
        3_000,
        100,
    ),
    Target(
        "http2",
        check_http2,
        ("hsdns/server/", "hsdns/http2.py", "hsdns/wire/", "/hpack/"),
        (
            b"\0\0\0\4\0\0\0\0\0", b"\0\0\0\4\1\0\0\0\0", b"\0\0\x08\6\0\0\0\0\0" + bytes(8),
            b"\0\0\4\x08\0\0\0\0\0\0\0\xff\xff", b"\0\0\4\3\0\0\0\0\1\0\0\0\x08", b"\0\0\0\0\1\0\0\0\1",
            b"\0\0\1\1\5\0\0\0\1\x82", b"\0\0\1\x09\4\0\0\0\1\x82", b"\x82\x87\x84", b"\x3f\xe1\x1f", b"\xff\xff\xff\x7f",
        ),
        4000,
        20_000,
        200,
    ),
    Target(
        "event",
        check_event,
        ("hsdns/apiserver/", "hsdns/cluster/"),
        (
            b'"', b"{", b"}", b"[", b"]", b",", b"null", b"true", b"-1", b"1e999", b'"\\ud800"', b'"\xff"', b"\0",
            b'"10.0.0.1"', b'"2001:db8::1"', b'"None"', b'"a.b"', b'"*"', b'"metadata":', b'"name":', b'"namespace":',
            b'"addresses":', b'"ports":', b'"hostname":', b'"zone":', b"65536", b"9" * 40,
        ),
        4000,
        8_000,
        100,
    ),
    Target(
        "protobuf",
        check_protobuf,
        ("hsdns/apiserver/", "hsdns/cluster/"),
        (
            b"k8s\0", b"\x0a\0", b"\x12\0", b"\x1a\0", b"\x22\0", b"\x08\1", b"\x10\0", b"\xff\xff\xff\xff\x0f", b"\0\0\0\x40",
            b"\x0a\x0810.0.0.1", b"\x0a\x0b2001:db8::1", b"\x0a\x03::1", b"\x12\2\x08\0", b"\x1a\3a.b", b"\x1a\2\xff\xfe", b'"\\',
        ),
        4000,
        8_000,
        100,
    ),
)  # fmt: skip
