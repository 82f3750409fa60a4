r"""Presentation form of records, as in `dig` and zone files.

Path: cli/, logs and setup; never in the answering of a query.
Rule 1: A, AAAA, NS, CNAME, PTR, SOA, MX, TXT and SRV are implemented here; other types by dnslib, which is imported
        only for them; types unknown to both use `\\# LENGTH HEX` (RFC 3597 section 5).
Rule 2: the text of any RDATA gives the same RDATA when parsed; dnslib's text is used only if it does (it drops what it
        does not understand, and raises many kinds of exceptions).
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from hsdns.wire import rdata
from hsdns.wire.iana import RRType, type_to_text
from hsdns.wire.name import MAX_NAME_LEN, Name

_STRING: Final = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|((?:[^\s"\\]|\\.)+))', re.DOTALL)
_ESCAPE: Final = re.compile(rb"\\(?:([0-9]{3})|(.))", re.DOTALL)
_NAME_TYPES: Final = frozenset({RRType.NS, RRType.CNAME, RRType.PTR})


def rdata_to_text(rrtype: int, wire: bytes) -> str:
    """Format RDATA; malformed RDATA and unknown types in the form of RFC 3597."""
    try:
        text = _write_builtin(rrtype, wire)
        if text is None:
            text = _write_with_dnslib(rrtype, wire)
        if text is not None and _is_plain(text) and rdata_from_text(rrtype, text) == wire:
            return text
    except ValueError:
        pass
    return rf"\# {len(wire)} {wire.hex()}" if wire else r"\# 0"


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def rdata_from_text(rrtype: int, text: str) -> bytes:
    """Parse RDATA in presentation form; its names are absolute with or without a final dot; raise ValueError."""
    words = text.split()
    if words[:1] == ["\\#"]:
        return _read_unknown(words[1:], text)
    made = _read_builtin(rrtype, words, text)
    if made is None:
        made = _read_with_dnslib(rrtype, text)
    if made is None:
        raise ValueError(
            rf'"{text}" cannot be parsed as {type_to_text(rrtype)}; write it as "\# LENGTH HEX"'
        )
    return made


# Types implemented here


def _write_builtin(rrtype: int, wire: bytes) -> str | None:
    if rrtype == RRType.A:
        return str(IPv4Address(wire))
    if rrtype == RRType.AAAA:
        return str(IPv6Address(wire))
    if rrtype in _NAME_TYPES:
        return _only_name(wire, 0).to_text()
    if rrtype == RRType.MX:
        return f"{_number(wire, 0, 2)} {_only_name(wire, 2).to_text()}"
    if rrtype == RRType.SRV:
        priority, weight, port = (_number(wire, at, 2) for at in (0, 2, 4))
        return f"{priority} {weight} {port} {_only_name(wire, 6).to_text()}"
    if rrtype == RRType.SOA:
        mname, at = _name(wire, 0)
        rname, at = _name(wire, at)
        if len(wire) != at + 20:
            raise ValueError("SOA has five numbers of four octets after its names")
        numbers = " ".join(str(_number(wire, at + 4 * index, 4)) for index in range(5))
        return f"{mname.to_text()} {rname.to_text()} {numbers}"
    if rrtype == RRType.TXT:
        return _strings_to_text(wire)
    return None


def _read_builtin(rrtype: int, words: list[str], text: str) -> bytes | None:
    if rrtype == RRType.A:
        return IPv4Address(_exactly(words, 1, text)[0]).packed
    if rrtype == RRType.AAAA:
        found = IPv6Address(_exactly(words, 1, text)[0])
        if found.scope_id is not None:
            raise ValueError(f'"{text}" has a zone index, which a record cannot hold')
        return found.packed
    if rrtype in _NAME_TYPES:
        return Name.from_text(_exactly(words, 1, text)[0]).wire
    if rrtype == RRType.MX:
        preference, exchange = _exactly(words, 2, text)
        return _read_number(preference, 2) + Name.from_text(exchange).wire
    if rrtype == RRType.SRV:
        *numbers, target = _exactly(words, 4, text)
        return b"".join(_read_number(number, 2) for number in numbers) + Name.from_text(target).wire
    if rrtype == RRType.SOA:
        mname, rname, *numbers = _exactly(words, 7, text)
        names = Name.from_text(mname).wire + Name.from_text(rname).wire
        return names + b"".join(_read_number(number, 4) for number in numbers)
    if rrtype == RRType.TXT:
        return rdata.txt(*_read_strings(text))
    return None


def _name(wire: bytes, at: int) -> tuple[Name, int]:
    """Return an uncompressed name and the offset after it, validated; raise ValueError."""
    end = at
    try:
        while length := wire[end]:
            if length > 63:
                raise ValueError(f"{length} is not a valid label length")
            end += 1 + length
    except IndexError:
        raise ValueError("RDATA ends within a name") from None
    if end + 1 - at > MAX_NAME_LEN:
        raise ValueError("the name is too long")
    return Name(wire[at : end + 1]), end + 1


def _only_name(wire: bytes, at: int) -> Name:
    name, end = _name(wire, at)
    if end != len(wire):
        raise ValueError("RDATA continues after the name")
    return name


def _number(wire: bytes, at: int, size: int) -> int:
    if len(wire) < at + size:
        raise ValueError("RDATA is too short")
    return int.from_bytes(wire[at : at + size], "big")


def _strings_to_text(wire: bytes) -> str:
    at, parts = 0, []
    while at < len(wire):
        end = at + 1 + wire[at]
        if end > len(wire):
            raise ValueError("a string is longer than the RDATA")
        parts.append('"' + "".join(map(_octet_to_text, wire[at + 1 : end])) + '"')
        at = end
    if not parts:
        raise ValueError("TXT must have at least one string")
    return " ".join(parts)


def _octet_to_text(octet: int) -> str:
    if octet in b'"\\':
        return f"\\{chr(octet)}"
    return chr(octet) if 0x20 <= octet < 0x7F else f"\\{octet:03d}"


def _read_strings(text: str) -> list[bytes]:
    at, found, end = 0, [], len(text.rstrip())
    while at < end:
        match = _STRING.match(text, at)
        if match is None:
            raise ValueError(f'"{text}" has a quote that is not closed, or a backslash at its end')
        found.append(_unescape(match[1] if match[1] is not None else match[2]))
        at = match.end()
    if not found:
        raise ValueError("TXT needs at least one string")
    return found


def _unescape(text: str) -> bytes:
    def octet(match: re.Match[bytes]) -> bytes:
        if match[1] is None:
            return match[2]
        if int(match[1]) > 255:
            raise ValueError(f'"\\{match[1].decode()}" is not an octet')
        return bytes([int(match[1])])

    return _ESCAPE.sub(octet, text.encode("utf-8", "surrogateescape"))


def _exactly(words: list[str], count: int, text: str) -> list[str]:
    if len(words) != count:
        raise ValueError(f'"{text}" has {len(words)} fields, expected {count}')
    return words


def _read_number(word: str, size: int) -> bytes:
    if not (word.isascii() and word.isdigit()) or int(word) >= 1 << 8 * size:
        raise ValueError(f'"{word}" is not a number of {8 * size} bits')
    return int(word).to_bytes(size, "big")


def _read_unknown(words: list[str], text: str) -> bytes:
    try:
        length, wire = int(words[0]), bytes.fromhex("".join(words[1:]))
    except (IndexError, ValueError):
        raise ValueError(rf'"{text}" is not of the form "\# LENGTH HEX"') from None
    if length != len(wire):
        raise ValueError(f'"{text}" announces {length} octets but has {len(wire)}')
    return wire


# Other types


def _write_with_dnslib(rrtype: int, wire: bytes) -> str | None:
    """Return dnslib's text for RDATA, None if it does not know the type or fails."""
    from dnslib import RDMAP, DNSBuffer  # noqa: PLC0415 - 60 ms that only rare types need

    known = RDMAP.get(type_to_text(rrtype))
    if known is None:
        return None
    try:
        return str(known.parse(DNSBuffer(wire), len(wire)))
    except Exception:  # DNSError, UnicodeDecodeError, RecursionError, KeyError and others
        return None


def _read_with_dnslib(rrtype: int, text: str) -> bytes | None:
    from dnslib import RDMAP, DNSBuffer  # noqa: PLC0415 - as above
    from dnslib.lex import WordLexer  # noqa: PLC0415 - as above

    known = RDMAP.get(type_to_text(rrtype))
    if known is None:
        return None
    try:
        lexer = WordLexer(text)
        lexer.commentchars = ""
        words = [word for kind, word in lexer if kind == "ATOM"]
        buffer = DNSBuffer()
        # Uncompressed, as for a message that contains nothing else.
        buffer.encode_name = buffer.encode_name_nocompress
        known.fromZone(words, ".").pack(buffer)
        return bytes(buffer.data)
    except Exception:  # as above
        return None
