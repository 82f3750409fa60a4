"""resolv.conf as stub resolvers read it.

Path: a file, or resolver/pod.py -> here -> a model.
Source: resolv.conf(5); the readers of glibc, musl, Go and c-ares differ in caps, in line lengths and in the options
        that they know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class ResolvConf(NamedTuple):
    """One library's view of the file; `timeout` in seconds.  `remarks` are sentences on settings that it ignores."""

    nameservers: tuple[str, ...]
    search: tuple[str, ...]
    ndots: int
    timeout: int
    attempts: int
    flags: frozenset[str]
    remarks: tuple[str, ...]

    @property
    def trust_ad(self) -> bool:
        """Whether queries have the AD bit."""
        return "trust-ad" in self.flags


class Reader(NamedTuple):
    """The differences between libraries: caps, known switches, and the longest line, without its end."""

    library: str
    flags: Mapping[str, str]  # each option with its synonym
    timeout: int = 5  # seconds
    attempts: int = 2
    most_servers: int = 3
    most_timeout: int = 1 << 30
    most_attempts: int = 1 << 30
    line_len: int = 1 << 30


def read_resolv_conf(text: str, reader: Reader) -> ResolvConf:
    """Read the text of a resolv.conf."""
    numbers = {"ndots": 1, "timeout": reader.timeout, "attempts": reader.attempts}
    most = {"ndots": 15, "timeout": reader.most_timeout, "attempts": reader.most_attempts}
    servers: list[str] = []
    search: tuple[str, ...] = ()
    flags: set[str] = set()
    remarks: dict[str, None] = {}
    for line in text.splitlines():
        words = line.split()
        if not words or words[0][0] in "#;":
            continue
        if len(line) > reader.line_len:
            remarks[
                f"{reader.library} ignores the line {words[0]}: it has {len(line)} octets, "
                f"more than {reader.line_len}"
            ] = None
        elif words[0] == "nameserver" and len(words) > 1:
            servers.append(words[1])
        elif words[0] in ("search", "domain"):
            search = tuple(word.strip(".") for word in words[1:])
        elif words[0] == "options":
            for option in words[1:]:
                name, colon, value = option.partition(":")
                if colon and name in numbers and value.isascii() and value.isdigit():
                    numbers[name] = min(int(value), most[name])
                elif name in reader.flags and not colon:
                    flags.add(reader.flags[name])
                else:
                    remarks[f"{reader.library} ignores the option {option}"] = None
    if len(servers) > reader.most_servers:
        remarks[
            f"{reader.library} uses the first {reader.most_servers} of {len(servers)} nameservers"
        ] = None
    return ResolvConf(
        tuple(servers[: reader.most_servers]) or ("127.0.0.1",),
        search,
        numbers["ndots"],
        max(1, numbers["timeout"]),
        max(1, numbers["attempts"]),
        frozenset(flags),
        tuple(remarks),
    )


def switches(*names: str) -> dict[str, str]:
    """Options without synonyms."""
    return {name: name for name in names}


def write_resolv_conf(
    servers: Sequence[str], search: Sequence[str], options: Mapping[str, str]
) -> str:
    """The text of a resolv.conf; an option without a value is a switch."""
    lines = []
    if search:
        lines.append("search " + " ".join(search))
    lines += [f"nameserver {server}" for server in servers]
    if options:
        words = [f"{name}:{value}" if value else name for name, value in options.items()]
        lines.append("options " + " ".join(words))
    return "\n".join(lines) + "\n"
