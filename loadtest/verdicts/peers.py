"""CoreDNS with plugins that change replies, under changes of one cluster: none of its answers has a wrong field.

Path: __main__.py -> here -> CoreDNS, and `hsdns load` with all of them at once.
Rule: only `cache` may give an answer that is stale, or lacks or has what a state of before had.
"""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path
from shutil import which
from typing import Any, Final

from loadtest.demo import corefile
from loadtest.figures import Checked
from loadtest.generators import churn_words
from loadtest.ports import free_port
from loadtest.process import BenchmarkError
from loadtest.programs import ROOT
from loadtest.server import start

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
    program = os.environ.get("HSDNS_PEER") or which("coredns")
    if program is None:
        raise BenchmarkError("CoreDNS is not installed; HSDNS_PEER names its program")
    ports, api, out = {name: free_port() for name in DIRECTIVES}, free_port(), folder / "peers.json"
    with ExitStack() as stack:
        for name, directives in DIRECTIVES.items():
            text = corefile(ports[name], api, directives)
            stack.enter_context(start(folder, name, text, words=(program,)))
        words = churn_words(
            ports, api, "services=50 endpoints=5", RATE, CHURN, "-time", f"{SECONDS}s", "-probes", "0",
            "-edns", "1232", "-wait", "30s", "-live", "none", "-json", str(out),
        )  # fmt: skip
        done = subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True)
        if done.returncode:
            raise BenchmarkError(f"hsdns load has failed: {done.stderr[-500:]}")
    return [_judged(server) for server in json.loads(out.read_text())["servers"]]


def _judged(server: dict[str, Any]) -> Checked:
    verdicts = server["verdicts"]
    counts, wrong = verdicts["counts"], verdicts["wrong"]
    fields = ", ".join(sorted({each["field"] for each in wrong})) or "none"
    bad = [] if server["name"] in CACHES else ["stale", "early", "missing", "extra"]
    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    is_good = not wrong and not any(counts[word] for word in bad) and counts["right"] > 0
    return Checked(f"CoreDNS, {server['name']}: {told}; wrong fields: {fields}", is_good)
