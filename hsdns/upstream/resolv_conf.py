"""The nameservers and the search list of a resolv.conf(5) file.

Path: upstream/target.py reads the file that `forward . /etc/resolv.conf` names; autopath and kubernetes its search.
Source: CoreDNS 1.14.7 takes the `nameserver` lines alone, all of them, not only three (miekg/dns clientconfig.go).
"""

from __future__ import annotations

from typing import Final

from hsdns.wire.name import Name

RESOLV_CONF: Final = "/etc/resolv.conf"


def nameservers(text: str) -> list[str]:
    """The addresses of all `nameserver` lines, in order."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver":
            found.append(words[1])
    return found


def search_list(text: str) -> tuple[Name, ...]:
    """The domains of the last `search` or `domain` line, in lower case; what is no name is left out."""
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
    """The search list of a file; none where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return search_list(file.read())
    except OSError:
        return ()
