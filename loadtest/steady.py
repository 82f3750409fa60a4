"""`hsdns load` as a part of other benchmarks: the commands that it is started with, and the figures that it reports.

Path: watch/churn.py, pressure/clients.py -> here -> `hsdns load`.
Rule: what is asked is a file of names; a server that stops to answer does not end the load.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

HSDNS_LOAD: Final = (sys.executable, "-m", "hsdns", "load")


def write_names(path: Path, names: Iterable[str]) -> Path:
    """Write a file of names, all for A records."""
    path.write_text("".join(f"{name} A\n" for name in names))
    return path


def load_words(port: int, names: Path, rate: float, seconds: float, *more: str) -> tuple[str, ...]:
    """The command that loads a server of this machine for some seconds; its report is JSON."""
    return (
        *HSDNS_LOAD, "-p", str(port), "-queries", str(names), "-rate", f"{rate:g}", "-time", f"{seconds:g}s",
        "-max-time", f"{seconds:g}s", "-keep-going", "-live", "none", "-o", "json", *more,
    )  # fmt: skip


def counts_of(report: dict[str, Any]) -> dict[str, float]:
    """The counts of a report as the other clients of pressure/ print them; a percentile that does not stand is 0."""
    (server,) = report["servers"]
    counts, us = server["counts"], {each["name"]: each["us"] or 0 for each in server["latency"]}
    failed = sum(counts["rcodes"].get(rcode, 0) for rcode in ("SERVFAIL", "REFUSED"))
    return {
        "offered": counts["due"],
        "sent": counts["sent"],
        "answered": counts["answered"],
        "failed": failed,
        "p50_us": us["p50"],
        "p99_us": us["p99"],
        "worst_us": us["max"],
    }
