"""The servers of an audit, and the clusters that define the right answers.

Path: audit/cli.py -> here -> load/cli/cluster.py (right answers), load/send/process.py (sends queries) -> audit/run.py.
Rule 1: the clusters are read again for each pass, all at the same time, so new names are queried.
Rule 2: all servers of a cluster are queried at the same time, so differences between them exist at one moment.

The metrics page of a continuous audit.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from hsdns.ask.question import NoReply, exchange
from hsdns.audit.report import FORMAT, AuditReport, Gauges, Pass, make_report
from hsdns.audit.run import Answers, AskAgain, Asking, audit_questions, carry_out, replicas
from hsdns.cli.command import FlagError, Progress
from hsdns.cli.offline import configure
from hsdns.cli.source import access_of, cluster_tokens, kubernetes_alone, quoted
from hsdns.corefile.keys import split_host_port
from hsdns.corefile.tree import CorefileError, Token
from hsdns.errors import OperatorError
from hsdns.load.cli.cluster import LoadCluster
from hsdns.load.errors import LoadError
from hsdns.load.plan import Plan, Target, place_to_text
from hsdns.load.questions import Question, Questions
from hsdns.load.schedule import EVEN, SECOND, Schedule, Stage
from hsdns.load.send.probe import find_target, probe
from hsdns.load.send.process import SenderProcess
from hsdns.load.send.udp import sockets_for
from hsdns.load.verify.truth import Truth
from hsdns.load.verify.verifier import Verifier
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.wire.encode import encode_query

if TYPE_CHECKING:
    from hsdns.audit.cli import Audit

TIMEOUT: Final = 2.0  # seconds until a query is lost
EDNS: Final = 1232  # octets, the default of most servers
SOCKETS: Final = 4
# Queries that wait for a server: they fit into its receive buffer and do not overload it.
AT_ONCE: Final = 128
INTERRUPTED: Final = "interrupted"
_ZONES: Final = "in-addr.arpa ip6.arpa"
_SHOWN_EVERY: Final = 0.1  # seconds


class Asked(NamedTuple):
    """A cluster, by its context of the kubeconfig ("" for the only one), and its servers.

    `services` are namespaces and names of Services whose endpoints are servers too.
    """

    context: str
    servers: list[Target]
    services: tuple[tuple[str, str], ...] = ()


class Targets:
    """All clusters; `settings` describe how to read and ask them."""

    def __init__(
        self, asked: Sequence[Asked], objects: tuple[Token, ...] | None, settings: Audit
    ) -> None:
        self._asked, self._objects, self._settings = asked, objects, settings

    def audit(self) -> list[AuditReport]:
        """One pass over all clusters, which are read at the same time; raise OperatorError or OSError.

        Of several clusters, one that cannot be read or queried has a report without servers.
        """
        reports = []
        with ExitStack() as stack:
            for asked, audit in [(each, self._begin(each, stack)) for each in self._asked]:
                try:
                    reports.append(audit())
                except (OperatorError, OSError) as error:
                    if len(self._asked) == 1 or isinstance(error, CorefileError | FlagError):
                        raise
                    report = AuditReport(
                        FORMAT, _now(), str(error), 0.0, asked.context, 0, 0, 0, []
                    )
                    reports.append(report)
        return reports

    def _begin(self, asked: Asked, stack: ExitStack) -> Callable[[], AuditReport]:
        """Begin to read a cluster, until the end of `stack`; returns what waits for it and makes the pass."""
        settings = self._settings
        objects, text = self._objects, None
        if asked.context:
            objects = cluster_tokens(access_of(settings.kubeconfig, asked.context))
            text = kubernetes_alone(f"{quoted(settings.zone)} {_ZONES}", "ttl 30\n")
        configuration, _ = configure(
            settings.conf, objects, text=text, runs_code=settings.runs_code
        )
        ttl, servers = settings.ttl, list(asked.servers)

        def choose(blocks: Sequence[Kubernetes]) -> Questions:
            nonlocal ttl
            if ttl is None:
                ttl = max(block.answers.lookup.ttl for block in blocks)
            for service in asked.services:
                servers.extend(
                    each
                    for each in _behind(service, blocks)
                    if each[1:] not in {(at.host, at.port) for at in servers}
                )
            sets = [block.answer_set() for block in blocks]
            found = audit_questions(sets, settings.absent, random.Random(settings.seed))
            return Questions(found.all, seed=settings.seed, known=found.known)

        def audit() -> AuditReport:
            with cluster:
                truth = cluster.truth
                assert truth is not None, "it verifies"
                words = " ".join(token.text for token in self._objects or ()) or str(settings.conf)
                questions = list(cluster.questions.all)
                return _pass(servers, questions, truth, settings, asked.context or words, ttl)

        cluster = LoadCluster(configuration, choose, verifies=True)
        cluster.start()
        stack.callback(cluster.__exit__)
        return audit


def _behind(service: tuple[str, str], blocks: Sequence[Kubernetes]) -> list[Target]:
    namespace, name = (each.encode().lower() for each in service)
    values = [block.store.services.values.get((namespace, name)) for block in blocks]
    found = [
        Target(place_to_text(*each), *each)
        for value in values
        if value is not None
        for each in replicas(value)
    ]
    if not found:
        text = "/".join(service)
        why = "has no ready endpoint with a port over UDP" if any(values) else "does not exist"
        raise LoadError(f"--service {text}: the Service {why}, so there is no server to query")
    return found


def _pass(
    servers: Sequence[Target],
    questions: list[Question],
    truth: Truth,
    settings: Audit,
    cluster: str,
    ttl: int | None,
) -> AuditReport:
    if not questions:
        raise LoadError("the cluster has no names to query; check --source and --conf")
    started, began = _now(), time.monotonic()
    wires = [each.octets(EDNS) for each in questions]
    found: list[tuple[str, Answers]] = []
    asking: list[Asking] = []
    with ExitStack() as stack:
        for name, host, port in servers:
            family, address = find_target(host, port)
            probe(family, address, questions[0].query(EDNS), 0.0, more="")
            answers = Answers(questions, Verifier(truth, questions, edns=EDNS), EDNS)
            plan = _plan(family, address, wires, settings)
            sending = stack.enter_context(SenderProcess(plan))
            asking.append(Asking(sending, answers, _asks_again(host, port, questions)))
            found.append((name, answers))
        with _progress(len(questions) * len(asking)) as show:
            is_whole = carry_out(asking, show, time.monotonic, time.sleep)
    seconds = time.monotonic() - began

    ended = "" if is_whole else INTERRUPTED
    done = Pass(started, ended, seconds, cluster, truth.latest, settings.slow, ttl)
    return make_report(questions, found, done)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plan(family: int, address: tuple[str | int, ...], wires: list[bytes], settings: Audit) -> Plan:
    stage = schedule_of(len(wires), settings)
    sockets = sockets_for(stage.first, TIMEOUT, SOCKETS)
    timeout = round(TIMEOUT * SECOND)
    return Plan(
        family,
        address,
        wires,
        [],
        Schedule((stage,), EVEN, 1, settings.seed),
        timeout,
        sockets,
        replies=True,
        most=AT_ONCE,
    )


def schedule_of(count: int, settings: Audit) -> Stage:
    """A stage with `count` queries, at the rate of the settings."""
    # The last query is due half an interval before the end: so there is exactly one for each question.
    return Stage((count - 0.5) / settings.rate, float(settings.rate), float(settings.rate))


def _asks_again(host: str, port: int, questions: Sequence[Question]) -> AskAgain:
    def ask(question: int, is_truncated: bool) -> tuple[bytes, float, float] | None:
        asked, query = time.monotonic(), questions[question].query(EDNS)
        wire = encode_query(query, drawn.randrange(1 << 16))
        try:
            octets = exchange(host, port, wire, TIMEOUT, is_tcp=is_truncated)
        except NoReply:
            return None
        return octets, asked, time.monotonic()

    drawn = random.Random()
    return ask


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A progress line on a terminal; nothing elsewhere."""
    progress, shown = Progress(), 0.0

    def show(asked: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown >= _SHOWN_EVERY:
            shown = now
            share = asked / total if total else 1.0
            bar = ("#" * round(share * 30)).ljust(30, ".")
            progress.show(f"{asked:,} of {total:,} answers [{bar}]")

    try:
        yield show
    finally:
        progress.show()


@contextmanager
def serve_metrics(address: str, gauges: Gauges) -> Iterator[str]:
    """Serve the metrics at HOST:PORT, and yield the address; nothing without one.  Raise FlagError or OSError."""
    if not address:
        yield ""
        return
    found = split_host_port(address)
    if found is None:
        raise FlagError(f'--metrics needs an address such as :9154, found "{address}"')

    from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415 - 45 ms

    registry = CollectorRegistry()
    registry.register(gauges.registry)
    try:
        server, thread = start_http_server(found.port, found.host or "0.0.0.0", registry)
    except OSError as error:
        raise OSError(f"--metrics {address}: {error.strerror}") from None
    try:
        yield f"{server.server_address[0]!s}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
