"""`hsdns audit -server ADDRESS...`: whether servers answer every name of a cluster as its objects define.

Path: argv -> here -> audit_servers.py (sends queries) -> audit/report.py -> standard output.
Rule 1: exit status 0: all answers are right; 1: some are not; 2: bad input, no cluster, no server, or an interrupted
        pass that found nothing.
Rule 2: standard output has only the report; progress is on standard error.
Rule 3: each server gets 1,000 queries per second unless -rate sets another rate.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hsdns import memory
from hsdns.cli import builtin
from hsdns.cli.flags import NO_CODE, Flag, FlagError, output_format, parse_flags, read_time, usage
from hsdns.cli.output import complain, say, say_json, say_text
from hsdns.corefile.tree import CorefileError
from hsdns.load.errors import LoadError
from hsdns.load.target import read_targets

if TYPE_CHECKING:
    from hsdns.audit.report import AuditReport
    from hsdns.cli.audit_servers import Asked

RATE: Final = 1000
HIGHEST_RATE: Final = 100_000
ABSENT: Final = 100
PORT: Final = 53
SLOW: Final = 0.1  # seconds
INTERVAL: Final = 300.0  # seconds
BAD: Final = 2
_COUNT: Final = "number"

FLAGS: Final = {
    "server": Flag(list, f"servers to ask (default port {PORT})", "[NAME=]ADDRESS[:PORT]..."),
    "service": Flag(list, "Services each of whose ready endpoints is asked", "NAMESPACE/NAME..."),
    "source": builtin.SOURCE,
    "conf": Flag(str, "Corefile whose kubernetes block says the cluster, as the servers' does", "FILE"),
    "kubeconfig": Flag(str, "how to reach the clusters of -contexts", "FILE"),
    "contexts": Flag(list, "clusters by context of the kubeconfig, and their servers", "CONTEXT=ADDRESS,..."),
    "zone": Flag(str, "domain of the clusters of -contexts (default cluster.local)", "DOMAIN"),
    "rate": Flag(int, f"queries a second to each (default {RATE})", "RATE", what=_COUNT, low=1, high=HIGHEST_RATE),
    "absent": Flag(int, f"names that must not exist (default {ABSENT})", "NUMBER", what=_COUNT, high=1_000_000),
    "seed": Flag(int, "seed by which these are drawn (default 1)", "NUMBER", what=_COUNT, high=999_999_999),
    "slow": Flag(str, "from which latency a right answer is a finding (default 100ms)", "TIME"),
    "ttl": Flag(int, "highest right TTL, in seconds (default: the Corefile's)", "NUMBER", what=_COUNT, high=604_800),
    "watch": Flag(bool, "audit again and again"),
    "every": Flag(str, "time from the begin of a pass to the next one, with -watch (default 5m)", "TIME"),
    "metrics": Flag(str, "serve metrics for Prometheus there, with -watch", "HOST:PORT"),
    "html": Flag(str, "write the report as a page to a file", "FILE"),
    "o": Flag(str, "format of standard output: text (default) or json", "FORMAT"),
    "i-own-this": Flag(list, "addresses of your own that are neither loopback nor private", "ADDRESS..."),
    **NO_CODE,
    "h": Flag(bool, "show this help"),
    "help": Flag(bool, "show this help", alias_of="h"),
}  # fmt: skip

USAGE: Final = """Usage: hsdns audit -server ADDRESS... -source NAME [ARGUMENT...] [FLAG...]
       hsdns audit -service NAMESPACE/NAME -conf FILE [FLAG...]
       hsdns audit -contexts CONTEXT=ADDRESS,... [FLAG...]
"""


def run(words: list[str]) -> int:
    """Run `hsdns audit`; return the exit status."""
    from hsdns.cli.audit_servers import Settings, Targets
    from hsdns.cli.offline import CannotTell

    try:
        flags = parse_flags(words, FLAGS, command="hsdns audit")
        if flags.get("h"):
            say_text(f"{USAGE}\nFlags:\n{usage(FLAGS)}")
            return 0
        output = output_format(flags)
        _check_together(flags)
        settings = Settings(
            int(str(flags.get("rate", RATE))),
            int(str(flags.get("absent", ABSENT))),
            int(str(flags.get("seed", 1))),
            read_time(flags, "slow", SLOW, example="100ms"),
            int(str(flags["ttl"])) if "ttl" in flags else None,
        )
        every = read_time(flags, "every", INTERVAL, example="100ms")
        targets = Targets(_targets(flags), flags)
        memory.set_up_collector()  # all names of a cluster are many long-lived objects
        if flags.get("watch"):
            return _watch(targets, settings, every, flags, output)
        reports = targets.audit(settings)
    except (FlagError, LoadError, CorefileError, CannotTell, OSError) as error:
        complain(error)
        return BAD
    except KeyboardInterrupt:
        complain("interrupted before anything was asked")
        return BAD
    return _tell(reports, flags, output)


def _watch(targets: Any, settings: Any, every: float, flags: dict[str, Any], output: str) -> int:
    """Audit until Ctrl-C; return the exit status of the last complete pass."""
    from hsdns.audit.gauges import Gauges
    from hsdns.cli.audit_metrics import serve_metrics
    from hsdns.cli.offline import CannotTell

    gauges = Gauges()
    status = BAD
    with serve_metrics(str(flags.get("metrics", "")), gauges) as address:
        if address:
            complain(f"metrics are at http://{address}/metrics")
        try:
            while True:
                began = time.monotonic()
                try:
                    reports = targets.audit(settings)
                except (LoadError, CannotTell, OSError) as error:
                    complain(error)  # the next pass may succeed
                    gauges.failed()
                else:
                    if any(each.ended for each in reports):
                        return status
                    gauges.update(reports, time.time())
                    status = _tell(reports, flags, output)
                    sys.stdout.flush()
                time.sleep(max(0.0, began + every - time.monotonic()))
        except KeyboardInterrupt:
            return status


def _tell(reports: list[AuditReport], flags: dict[str, Any], output: str) -> int:
    from hsdns.audit.text import lines

    if output == "json":
        say_json(reports)
    else:
        say(*lines(reports))
    if "html" in flags:
        from hsdns.audit.page import page

        try:
            Path(str(flags["html"])).write_text(page(reports), encoding="utf-8")
        except OSError as error:
            complain(f"the page cannot be written: {error}")
            return BAD
    if any(each.bad for each in reports):
        return 1
    return BAD if any(each.ended for each in reports) else 0


def _targets(flags: dict[str, Any]) -> list[Asked]:
    from hsdns.cli.audit_servers import Asked

    owned = list(flags.get("i-own-this", []))
    services = tuple(_service(word) for word in flags.get("service", []))
    found: list[Asked] = []
    for word in flags.get("contexts", []):
        context, equals, addresses = word.partition("=")
        if not context or (equals and not addresses) or not (addresses or services):
            raise FlagError(f'-contexts needs CONTEXT=ADDRESS,..., found "{word}"')
        if any(each.context == context for each in found):
            raise FlagError(f'-contexts: "{context}" is given twice; list its servers with commas')
        listed = addresses.split(",") if addresses else []
        found.append(Asked(context, read_targets(listed, PORT, owned), services))
    if found:
        return found
    servers = read_targets(flags.get("server", []), PORT, owned)
    if not servers and not services:
        raise FlagError("which servers? add -server ADDRESS..., or -service NAMESPACE/NAME")
    return [Asked("", servers, services)]


def _service(word: str) -> tuple[str, str]:
    namespace, slash, name = word.partition("/")
    if not namespace or not slash or not name or "/" in name:
        raise FlagError(
            f'-service needs NAMESPACE/NAME such as kube-system/kube-dns, found "{word}"'
        )
    return namespace, name


def _check_together(flags: dict[str, Any]) -> None:
    for one, other in (("server", "contexts"), ("source", "contexts"), ("conf", "contexts")):
        if one in flags and other in flags:
            raise FlagError(f"-{one} and -{other} exclude each other; leave one out")
    for one, other in (
        ("kubeconfig", "contexts"),
        ("zone", "contexts"),
        ("every", "watch"),
        ("metrics", "watch"),
    ):
        if one in flags and not flags.get(other):
            raise FlagError(f"-{one} needs -{other}")
    if "contexts" not in flags and "source" not in flags and "conf" not in flags:
        raise FlagError("which cluster? add -source, -conf, or -contexts")
