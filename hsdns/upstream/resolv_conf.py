"""Parser for the nameservers and the search list of a resolv.conf(5) file.

Path: upstream/target.py for `forward . /etc/resolv.conf`; autopath and kubernetes for the search list.
Source: CoreDNS 1.14.7 uses all `nameserver` lines, not only three, and no options (miekg/dns clientconfig.go).
"""

from __future__ import annotations

from typing import Final

from hsdns.wire.name import Name

RESOLV_CONF: Final = "/etc/resolv.conf"


def nameservers(text: str) -> list[str]:
    """Return the addresses of all `nameserver` lines, in order."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver":
            found.append(words[1])
    return found


def search_list(text: str) -> tuple[Name, ...]:
    """Return the domains of the last `search` or `domain` line, in lower case, without invalid names."""
    found: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if words and words[0] == "search":
            found = words[1:]
        elif len(words) > 1 and words[0] == "domain":
            found = words[1:2]
    names = []
    for word in found:
        try:
            names.append(Name.from_text(word).lowered())
        except ValueError:
            continue
    return tuple(names)


def read_search_list(path: str) -> tuple[Name, ...]:
    """Return the search list of a file, empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return search_list(file.read())
    except OSError:
        return ()
