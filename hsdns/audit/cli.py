"""`hsdns audit --server ADDRESS...`: whether servers answer every name of a cluster as its objects define.

Path: argv -> here -> servers.py (sends queries) -> audit/report.py -> standard output.
Rule 1: exit status 0: all answers are right; 1: some are not; 2: bad input, no cluster, no server, or an interrupted
        pass that found nothing.
Rule 2: standard output has only the report; progress is on standard error.
Rule 3: each server gets 1,000 queries per second unless -rate sets another rate.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Final

from hsdns import memory
from hsdns.cli.command import CONTROL, OUTPUT, FlagError, complain, flag, say, say_json
from hsdns.cli.source import SourceCommand, is_cluster
from hsdns.colours import GREEN, RED, is_screen
from hsdns.corefile.properties import duration_to_text
from hsdns.corefile.tree import CorefileError, Token
from hsdns.errors import OperatorError
from hsdns.wire import printable

if TYPE_CHECKING:
    from hsdns.audit.report import AuditReport
    from hsdns.audit.servers import Asked, Targets

RATE: Final = 1000
HIGHEST_RATE: Final = 100_000
ABSENT: Final = 100
PORT: Final = 53
KUBE_DNS: Final = ("kube-system", "kube-dns")
SLOW: Final = 0.1  # seconds
INTERVAL: Final = 300.0  # seconds
BAD: Final = 2


class Audit(SourceCommand):
    """Audits servers once, or again and again."""

    name = "audit"
    forms = """hsdns audit --server ADDRESS... --source NAME [ARGUMENT...] [FLAG...]
       hsdns audit --service NAMESPACE/NAME --conf FILE [FLAG...]
       hsdns audit --contexts CONTEXT=ADDRESS,... [FLAG...]"""
    interrupted = ("interrupted before the first query", BAD)

    server: list[str] = flag(
        [], f"servers to query (default port {PORT})", "[NAME=]ADDRESS[:PORT]..."
    )
    service: list[str] = flag([], "Services whose ready endpoints are queried", "NAMESPACE/NAME...")
    control: str | None = flag(None, CONTROL)
    conf: str | None = flag(
        None, "Corefile of the servers; its kubernetes block names the cluster", "FILE"
    )
    contexts: list[str] = flag(
        [], "kubeconfig context of each cluster, and its servers", "CONTEXT=ADDRESS,..."
    )
    zone: str = flag(
        "cluster.local", "domain of the clusters of --contexts (default cluster.local)", "DOMAIN"
    )
    rate: int = flag(
        RATE,
        f"queries per second to each server (default {RATE})",
        "RATE",
        low=1,
        high=HIGHEST_RATE,
    )
    absent: int = flag(
        ABSENT,
        f"number of names to query that must not exist (default {ABSENT})",
        "NUMBER",
        high=1_000_000,
    )
    seed: int = flag(1, "random seed of those names (default 1)", "NUMBER", high=999_999_999)
    slow: float = flag(
        SLOW,
        "latency above which a right answer is a finding (default 100ms)",
        "TIME",
        time="100ms",
    )
    ttl: int | None = flag(
        None,
        "highest correct TTL, in seconds (default: the Corefile's, or 30)",
        "NUMBER",
        high=604_800,
    )
    watch: bool = flag(False, "repeat the audit")
    every: float = flag(
        INTERVAL,
        "interval between the starts of two passes, with --watch (default 5m)",
        "TIME",
        time="100ms",
    )
    metrics: str = flag("", "serve Prometheus metrics at this address, with --watch", "HOST:PORT")
    html: str | None = flag(None, "write the report to a file as HTML", "FILE")
    o: str = flag("text", OUTPUT)
    i_own_this: list[str] = flag([], "public addresses that belong to you", "ADDRESS...")

    def run(self) -> int:
        """Audit, and show the report of each pass."""
        from hsdns.audit.servers import Targets

        self._check_together()
        objects = None if self.contexts else self.cluster()
        targets = Targets(self._clusters(objects), objects, self)
        memory.set_up_collector()  # all names of a cluster are many long-lived objects
        return self._watch(targets) if self.watch else self._tell(targets.audit())

    def _watch(self, targets: Targets) -> int:
        """Audit until Ctrl-C; return the exit status of the last complete pass."""
        from hsdns.audit.report import Gauges
        from hsdns.audit.servers import INTERRUPTED, serve_metrics

        gauges = Gauges()
        status = BAD
        with serve_metrics(self.metrics, gauges) as address:
            if address:
                complain(f"metrics are at http://{address}/metrics")
            try:
                while True:
                    began = time.monotonic()
                    try:
                        reports = targets.audit()
                    except (CorefileError, FlagError):
                        raise
                    except (OperatorError, OSError) as error:
                        complain(error)  # the next pass may succeed
                        gauges.failed()
                    else:
                        if any(each.ended == INTERRUPTED for each in reports):
                            return status
                        gauges.update(reports, time.time())
                        status = self._tell(reports)
                        sys.stdout.flush()
                    time.sleep(max(0.0, began + self.every - time.monotonic()))
            except KeyboardInterrupt:
                return status

    def _tell(self, reports: list[AuditReport]) -> int:
        from hsdns.audit.report import WORDS, lines, screen

        words = {each: GREEN if each == WORDS[0] else RED for each in WORDS}
        if self.o == "json":
            say_json(reports)
        elif self.watch and is_screen(sys.stdout):
            width, height = get_terminal_size()
            head = (
                f"{reports[0].started}, again every {duration_to_text(self.every)}; Ctrl-C ends it"
            )
            shown = map(printable, (head, "", *screen(reports, width, height - 4)))
            say("\x1b[H\x1b[J" + "\n".join(shown), shown=str, words=words)
        else:
            say(*lines(reports), words=words, fits=True)
        if self.html is not None:
            from hsdns.audit.page import page

            try:
                Path(self.html).write_text(page(reports), encoding="utf-8")
            except OSError as error:
                complain(f"cannot write the page: {error}")
                return BAD
        if any(each.bad for each in reports):
            return 1
        return BAD if any(each.ended for each in reports) else 0

    def _clusters(self, objects: tuple[Token, ...] | None) -> list[Asked]:
        """The clusters and their servers: without flags the DNS of the cluster, for files the server that runs."""
        from hsdns.audit.servers import Asked
        from hsdns.load.plan import Target, place_to_text, read_targets

        owned = self.i_own_this
        services = tuple(map(_service, self.service))
        found: list[Asked] = []
        for word in self.contexts:
            context, equals, addresses = word.partition("=")
            if not context or (equals and not addresses) or not (addresses or services):
                raise FlagError(f'--contexts needs CONTEXT=ADDRESS,..., found "{word}"')
            if any(each.context == context for each in found):
                raise FlagError(
                    f'--contexts: "{context}" is given twice; list its servers with commas'
                )
            listed = addresses.split(",") if addresses else []
            found.append(Asked(context, read_targets(listed, PORT, owned), services))
        if found:
            return found
        servers = read_targets(self.server, PORT, owned)
        if not servers and not services and self.control is None and is_cluster(objects):
            services = (KUBE_DNS,)
            complain(f"querying the endpoints of Service {'/'.join(KUBE_DNS)}")
        elif not servers and not services:
            from hsdns.cli.running_server import NotRunning, looking_at

            try:
                host, port = looking_at(self.control).dns_address()
            except NotRunning:
                raise FlagError(
                    "no server to audit: none runs here; add --server ADDRESS..., or --service NAMESPACE/NAME"
                ) from None
            servers = [Target(place_to_text(host, port), host, port)]
        return [Asked("", servers, services)]

    def _check_together(self) -> None:
        for one in ("server", "source", "conf", "context", "control"):
            self.exclusive(one, "contexts")
        self.exclusive("control", "server", "service")
        for one, other, is_given in (
            ("zone", "contexts", self.contexts),
            ("every", "watch", self.watch),
            ("metrics", "watch", self.watch),
        ):
            if one in self.given and not is_given:
                raise FlagError(f"--{one} needs --{other}")


def _service(word: str) -> tuple[str, str]:
    namespace, slash, name = word.partition("/")
    if not namespace or not slash or not name or "/" in name:
        raise FlagError(
            f'--service needs NAMESPACE/NAME such as kube-system/kube-dns, found "{word}"'
        )
    return namespace, name
