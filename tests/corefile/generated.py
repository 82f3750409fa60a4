"""Corefiles at random: directives with bodies in all the layouts that people write, of plugin_lines.txt, some with a slip of the pen.

Path: a seed -> corefile() -> test_peer.py, which records what CoreDNS does with it.
Rule: nothing depends on the machine: no port, no file that exists, no interface but lo.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Final

from tests.support.tables import Row, rows

KEYS: Final = (
    ".", ".", ".", "example.org", "cluster.local example.org", "10.0.0.0/24", "example.org, example.net", "A.example.org:5300",
    "dns://example.org", "tls://example.org", "https://.", ".:53 example.org", "2001:db8::/32", "example.org:x", ".:0", "(a b",
)  # fmt: skip
UNKNOWN: Final = (
    "proxy . 192.0.2.1",
    "federation",
    "alternate . 192.0.2.1",
    "cahce 30",
    "on startup echo",
    "multicluster a",
)
SLIPS: Final = ("{", "}", "\n", '"', "#", "{$NONE}", "import none", "import common", '""', "x")
NEEDED: Final = ("auto", "header", "kubernetes", "secondary", "timeouts", "transfer")


@cache
def lines_of_plugins() -> dict[str, tuple[list[str], list[str]]]:
    """The arguments and the properties of each directive, the usual ones first."""
    found = {}
    for row in rows(Path(__file__).parent / "plugin_lines.txt"):
        (table,) = row.values
        assert isinstance(table, Row)
        args = ["" if each == '""' else each for each in table.given.strip().split(" ; ")]
        found[str(row.id)] = (args, table.expected[0].split(" ; "))
    return found


def corefile(seed: int) -> str:
    """The text of one."""
    random = Random(seed)
    written = list[str]()
    has_snippet = random.random() < 0.15
    if has_snippet:
        written += ["(common) {", *_indented(_directive(random)), "}"]
    for _ in range(random.choice((1, 1, 1, 2))):
        lines = list[str]()
        for _ in range(random.choice((1, 1, 1, 2))):
            lines += _directive(random)
        if random.random() < 0.1:
            lines += [random.choice(UNKNOWN)] if random.random() < 0.2 else lines[:1]
        if has_snippet and random.random() < 0.8:
            lines.insert(random.choice((0, len(lines))), "import common")
        key = random.choice(KEYS if random.random() < 0.3 else KEYS[:5])
        written += [f"{key} {{", *_indented(lines), "}"]
    text = "\n".join(written) + "\n"
    if random.random() < 0.15:
        at = random.randrange(len(text))
        slip = random.choice(SLIPS)
        text = (
            text[:at]
            + (f" {slip} " if random.random() < 0.5 else slip)
            + text[at + random.choice((0, 1)) :]
        )
    return text


def _indented(lines: list[str]) -> list[str]:
    return [f"    {each}" for each in lines]


def _directive(random: Random) -> list[str]:
    """A directive with its body, in one of the layouts."""
    name = random.choice(list(lines_of_plugins()))
    args, properties = lines_of_plugins()[name]
    head = f"{name} {random.choice(args if random.random() < 0.2 else args[:2])}".rstrip()
    usual = properties[: max(3, len(properties) // 2)] if random.random() < 0.6 else properties
    body = [random.choice(usual) for _ in range(random.choice((0, 0, 1, 1, 2, 3)))]
    if name in NEEDED:
        body.insert(0, properties[0])
    if not body:
        return [head, *(["{", "}"] if random.random() < 0.02 else [])]
    first, *others = body
    *before, last = body
    return random.choices(
        (
            [f"{head} {{", *_indented(body), "}"],
            [f"{head} {{ {' '.join(body)} }}"],
            [f"{head} {{", *_indented(before), f"    {last} }}"],
            [f"{head} {{ {first}", *_indented(others), "}"],
            [f"{head} {{", *(f"    {each} # why" for each in body), "}", ""],
            [f"{head} {{", "    import common", *_indented(body), "}"],
            [head, "{", *_indented(body), "}"],
            [f"{head} {{", *_indented(body), f"}} {last}"],
            [f"{head} {{", *_indented(body), "    {", "    }", "}"],
        ),
        (50, 15, 10, 8, 5, 1, 2, 1, 1),
    )[0]
