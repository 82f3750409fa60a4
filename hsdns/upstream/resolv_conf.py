"""The nameservers of a resolv.conf(5) file.

Path: upstream/target.py reads the file that `forward . /etc/resolv.conf` names.
Source: CoreDNS 1.14.7 takes the `nameserver` lines alone, all of them, not only three (miekg/dns clientconfig.go).
"""

from __future__ import annotations


def nameservers(text: str) -> list[str]:
    """The addresses of all `nameserver` lines, in order; search lists and options are read over."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver":
            found.append(words[1])
    return found
