"""Decides which queries are looked up, and under which key.

Path: the first step of step 2 for a datagram or frame; table.py calls it.  Twin of native/src/key.rs.
A query is plain if all of the following holds; any other one is a miss and goes to the chain:

Rule 1: it has 17 to 512 octets.
Rule 2: its opcode is QUERY, and of the flags only RD, CD and AD may be set; the decoder judges other queries.
Rule 3: it has one question, in class IN, with a name of 1 to 127 labels, without pointers, of at most 255 octets (RFC
        1035 section 2.3.4), and no other record but at most one OPT.
Rule 4: the OPT has the root as owner, version 0, extended RCODE 0, no flag but DO, and at most 16 complete options that
        end with the message (RFC 6891 section 6.1.2).
Rule 5: nothing follows the last record.

The key is the lower-cased QNAME, QTYPE, and one octet of flags:

Rule 6: only ASCII letters are lower-cased (RFC 4343).  A label's length is below 64 and so is not a letter; QTYPE is
        not lower-cased, because HTTPS (65, "A") and type 97 ("a") would become equal.
Rule 7: DO (1), CD (2) and the presence of an OPT (4) are in the key, because the chain may answer these queries
        differently.
Rule 8: ID, RD, AD, case, payload size and options (cookies, padding) are not in the key.  They are copied, used as a
        limit or ignored when the reply is written, so that clients that vary them still hit.  The class is always IN.
        A payload size above `max_payload` of the entry or negative zone is lowered first, with lower_size().
Rule 9: the octets around QNAME and QTYPE are the same in most queries: the ten octets after the ID, the class, and an
        OPT without options or with only a cookie.  cut_query() recognizes these octets, so that such a query is looked
        up without reading its labels: if the rest of it is a key of the table, it is a valid question, because it was
        read before.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hsdns.fastpath.hit_counts import DO
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.edns import ECHOED, OPT_FIXED_LEN
from hsdns.wire.encode import MAX_UDP_LEN, MIN_UDP_LEN
from hsdns.wire.iana import OptCode
from hsdns.wire.message import AD, CD, RD
from hsdns.wire.name import MAX_LABEL_LEN, MAX_NAME_LEN

MIN_PLAIN_LEN: Final = 17
MAX_PLAIN_LEN: Final = 512
MAX_OPTIONS: Final = 16

KEY_DO: Final = 1
KEY_CD: Final = 2
KEY_EDNS: Final = 4


class Form(NamedTuple):
    """The parts of a query except its question.

    `tail` is the last octet of the key.  `variant` is one of 16: RD (1), CD (2), EDNS (4), and whether AD or DO is set
    (8), which is all that the header of a reply takes from a query.  `opt` is the OPT record of the reply with the
    echoed options, empty if the query has none.  `limit` is how many octets the client accepts over UDP.  `do` is DO of
    hit_counts.py, or 0.
    """

    tail: bytes
    variant: int
    opt: bytes
    limit: int
    do: int


class PlainQuery(NamedTuple):
    """The parts of a plain query; `end` is where its question ends."""

    key: bytes
    end: int
    form: Form

    @property
    def qname(self) -> bytes:
        """The QNAME in lower case, its root label included."""
        return self.key[:-3]


class Header(NamedTuple):
    """The meaning of the ten octets after the ID; `cut` is the start of class and OPT without options, from the end.

    `forms` are the forms of such queries by the octets from there on, and of those with a cookie by the octets before
    the cookie's value; at most MAX_FORMS.
    """

    cut: int
    forms: dict[bytes, Form]
    variant: int


VARIANT_RD: Final = 1
VARIANT_CD: Final = 2
VARIANT_EDNS: Final = 4
VARIANT_AD: Final = (
    8  # the client wants to know whether the data are authentic (RFC 6840 section 5.7)
)
VARIANTS: Final = 16
# RD and CD in the header of each variant.
VARIANT_FLAGS: Final = tuple(
    (RD if variant & VARIANT_RD else 0) | (CD if variant & VARIANT_CD else 0)
    for variant in range(VARIANTS)
)
MAX_FORMS: Final = 256
_CLASS_LEN: Final = 2
# The ten octets after the ID of every plain query.
HEADERS: Final = {
    flags.to_bytes(2, "big") + b"\0\1\0\0\0\0\0" + bytes((additional,)): Header(
        -_CLASS_LEN - OPT_FIXED_LEN * additional,
        {},
        (VARIANT_RD if flags & RD else 0)
        | (VARIANT_CD if flags & CD else 0)
        | VARIANT_EDNS * additional
        | (VARIANT_AD if flags & AD else 0),
    )
    for flags in (rd | cd | ad for rd in (0, RD) for cd in (0, CD) for ad in (0, AD))
    for additional in (0, 1)
}
_OPT_START: Final = b"\0\0\x29"  # root, type 41
_OPT_FLAGS: Final = {b"\0\0\0\0": 0, b"\0\0\x80\0": KEY_DO}  # extended RCODE, version, flags
_ECHOED: Final = frozenset(code.to_bytes(2, "big") for code in ECHOED)
_CLASS_IN: Final = b"\0\1"
# A client's cookie alone: the most frequent option (RFC 7873 section 4), which is echoed as received.
COOKIE_START: Final = OptCode.COOKIE.to_bytes(2, "big") + b"\0\x08"
COOKIE_LEN: Final = 12
_COOKIE_CUT: Final = -_CLASS_LEN - OPT_FIXED_LEN - COOKIE_LEN
_TAILS: Final = [bytes((octet,)) for octet in range(8)]
_new: Final = tuple.__new__  # faster than calling PlainQuery(...)


def cut_query(query: bytes) -> tuple[int, Form] | None:
    """The start of the class, counted from the end, and the form; None if no query of that form was read before.

    The octets before the class are not examined: they may be a question or not.
    """
    header = HEADERS.get(query[2:12])
    if header is None:
        return None
    cut = header.cut
    form = header.forms.get(query[cut:])
    if form is None and header.variant & VARIANT_EDNS:
        cut = _COOKIE_CUT
        form = header.forms.get(query[_COOKIE_CUT:-8])
        if form is not None:
            tail, variant, _, limit, do = form
            form = _new(Form, (tail, variant, query[_COOKIE_CUT + _CLASS_LEN :], limit, do))
    return None if form is None else (cut, form)


def key_of(query: bytes) -> bytes | None:
    """The key of a query, whose name need not be valid; None if it is certainly not plain."""
    found = cut_query(query)
    if found is None:
        plain = read_query(query)
        return None if plain is None else plain.key
    cut, form = found
    return query[HEADER_LEN : cut - _CLASS_LEN].lower() + query[cut - _CLASS_LEN : cut] + form.tail


def lower_size(form: Form, max_payload: int) -> Form:
    """The same form with a smaller payload size; its `limit` must be above that, so it has an OPT."""
    tail, variant, opt, _, do = form
    opt = opt[:3] + max_payload.to_bytes(2, "big") + opt[5:]
    return _new(Form, (tail, variant, opt, max_payload, do))


def end_of_question(query: bytes) -> int:
    """Where the question ends whose name has labels that any plain query may have; 0 if there is none."""
    size, at = len(query), HEADER_LEN
    if not MIN_PLAIN_LEN <= size <= MAX_PLAIN_LEN:
        return 0
    try:
        while length := query[at]:
            if length > MAX_LABEL_LEN:
                return 0
            at += 1 + length
    except IndexError:
        return 0
    return at + 5 if HEADER_LEN < at < HEADER_LEN + MAX_NAME_LEN and at + 5 <= size else 0


def read_query(query: bytes) -> PlainQuery | None:
    """Parse a query; None if it is not plain."""
    header, end = HEADERS.get(query[2:12]), end_of_question(query)
    if header is None or query[end - 2 : end] != _CLASS_IN:
        return None
    size, at = len(query), end - 5
    variant = header.variant
    bits = KEY_CD if variant & VARIANT_CD else 0
    if not variant & VARIANT_EDNS:
        if end != size:
            return None
        form = Form(_TAILS[bits], variant, b"", MIN_UDP_LEN, 0)
        header.forms[_CLASS_IN] = form
        key = query[HEADER_LEN:at].lower() + query[at : at + 3] + form.tail
        return _new(PlainQuery, (key, end, form))
    record = query[end:]
    do = _OPT_FLAGS.get(record[5:9])
    rest = size - end - OPT_FIXED_LEN
    if do is None or rest < 0 or record[:3] != _OPT_START:
        return None
    if record[9] << 8 | record[10] != rest:
        return None
    opt = record
    if rest and (rest != COOKIE_LEN or record[11:15] != COOKIE_START):
        echoed = _echoed(record)
        if echoed is None:
            return None
        if len(echoed) != rest:
            opt = record[:9] + len(echoed).to_bytes(2, "big") + echoed
    limit = record[3] << 8 | record[4]
    if not MIN_UDP_LEN <= limit <= MAX_UDP_LEN:
        limit = MIN_UDP_LEN if limit < MIN_UDP_LEN else MAX_UDP_LEN
    tail = _TAILS[bits | do | KEY_EDNS]
    if do:
        variant |= VARIANT_AD
    form = _new(Form, (tail, variant, opt, limit, do * DO))
    is_cookie = opt is record and rest == COOKIE_LEN and record[11:15] == COOKIE_START
    if not rest or is_cookie:
        if len(header.forms) >= MAX_FORMS:
            header.forms.clear()
        header.forms[_CLASS_IN + (record[:-8] if is_cookie else record)] = form
    key = query[HEADER_LEN:at].lower() + query[at : at + 3] + tail
    return _new(PlainQuery, (key, end, form))


def _echoed(record: bytes) -> bytes | None:
    """The options that are echoed, as sent and in order; None if one is incomplete or there are too many."""
    at, size, found, count = OPT_FIXED_LEN, len(record), b"", 0
    while at < size:
        stop = at + 4
        if stop <= size:
            stop += record[at + 2] << 8 | record[at + 3]
        count += 1
        if stop > size or count > MAX_OPTIONS:
            return None
        if record[at : at + 2] in _ECHOED:
            found += record[at:stop]
        at = stop
    return found
