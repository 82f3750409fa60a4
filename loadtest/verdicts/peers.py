"""CoreDNS with plugins that change replies, under changes of one cluster: none of its answers has a wrong field.

Path: __main__.py -> here -> CoreDNS, and `hsdns load` with all of them at once.
Rule: only `cache` may give an answer that is stale, or lacks or has what a state of before had.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from loadtest.demo import Subject, coredns, loaded
from loadtest.figures import Checked
from loadtest.process import BenchmarkError

_TEMPLATE: Final = (
    'template ANY ANY example. {\n answer "{{ .Name }} 60 IN A 192.0.2.1"\n ederror 21 "no"\n }'
)
# What stands in the Corefile, by server; the last has all of them.
DIRECTIVES: Final = {
    "plain": (),
    "loadbalance": ("loadbalance",),
    "minimal": ("minimal",),
    "cache": ("cache 30",),
    "rewrite": (
        "rewrite name suffix .alias.test. .svc.cluster.local. answer auto",
        "rewrite ttl suffix cluster.local. 10-60",
    ),
    "others": (
        "nsid here", "bufsize 1232", _TEMPLATE, "forward example. 127.0.0.1:9", "loop", "loadbalance", "minimal",
        "cache 5",
    ),
}  # fmt: skip
CACHES: Final = ("cache", "others")
SECONDS: Final = 20
RATE: Final = "300"
CHURN: Final = 50


def run(folder: Path) -> list[Checked]:
    """Load all of them; raise BenchmarkError without CoreDNS."""
    program = coredns()
    if program is None:
        raise BenchmarkError("CoreDNS is not installed; HSDNS_PEER names its program")
    servers = [Subject(name, name, (program,), each) for name, each in DIRECTIVES.items()]
    more = ("-probes", "0", "-edns", "1232", "-live", "none")
    return [_judged(each) for each in loaded(folder, servers, RATE, SECONDS, CHURN, *more)]


def _judged(server: dict[str, Any]) -> Checked:
    verdicts = server["verdicts"]
    counts, wrong = verdicts["counts"], verdicts["wrong"]
    fields = ", ".join(sorted({each["field"] for each in wrong})) or "none"
    bad = [] if server["name"] in CACHES else ["stale", "early", "missing", "extra"]
    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    is_good = not wrong and not any(counts[word] for word in bad) and counts["right"] > 0
    return Checked(f"CoreDNS, {server['name']}: {told}; wrong fields: {fields}", is_good)
