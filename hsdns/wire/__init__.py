"""RFC 1035 bytes to values and back, for exactly what a cluster's DNS server meets.

Path: steps 3 (decode) and 6 (encode).  Nothing here imports the rest of hsdns, opens a socket or reads a clock.

Rule: every line of output and of the log passes printable(), so that no name of an object, a file or a query controls a
terminal or the program that reads the line.
"""

import json
import re
from ipaddress import ip_address
from typing import Final

# What GitHub Actions and Azure Pipelines take for a command: at the begin of a line, or anywhere in it.
_COMMAND: Final = re.compile(r"^ *:(?=:[a-z-]+(?: .*)?::)|#(?=#[a-z]*\[)", re.IGNORECASE)


def counted(count: int, noun: str, none: str = "0") -> str:
    """A number of things in words, as `1 query`, `2 queries` and `2 records`; `none` is the word for 0."""
    several = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{count or none} {noun if count == 1 else several}"


def printable(line: str) -> str:
    """Escape what is not printable, line ends too, as JSON does, and so that a line is no command of a CI system."""
    if not line.isprintable():
        line = "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in line)
    if "::" in line or "##" in line:
        line = _COMMAND.sub(lambda found: f"{found[0][:-1]}\\u{ord(found[0][-1]):04x}", line)
    return line


def is_address(text: str) -> bool:
    """Whether a text is an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
