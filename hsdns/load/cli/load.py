"""`hsdns load`: loads a DNS server, and checks whether its answers were right.

Path: argv -> here -> settings.py, cluster.py -> run.py -> the report.
Rule 1: exit status 0: it ran, and all limits hold; 1: a limit of -fail-if is met; 2: bad input, no server, or a limit
        that could not be evaluated.  A generator of a Job has status 0 once its report is written: the limits apply to
        all generators together.
Rule 2: standard output has only the report; progress is on standard error.
Rule 3: a run that Ctrl-C or SIGTERM ends is reported, with status 2 unless a limit is met.

SIGTERM, which a deleted pod gets: a load ends as with Ctrl-C:
Rule 1: before a load begins it raises KeyboardInterrupt, because there is nothing to report.
Rule 2: from then on it is only recorded, and the run checks for it.  So it cannot interrupt, for example, the writing
        of the report, and a second one, which `timeout` sends, has no effect.

The portion of the plan that this generator carries out, and its meeting with the others: -part, -coordinate, -job:
Rule: it joins them before it reads a cluster, so that each hears at once why another has failed.

Checks that a process may have the descriptors that a load needs, for UDP sockets (-sockets) and for connections:
Rule: the soft limit is raised first; the sending process inherits it.

The questions of a load: of a file, of a recording, or of a cluster, by its names or by the lookups of its pods.

-find-knee: the highest rate at which limits hold; load/knee.py returns the next step, and each step is a separate run:
Rule 1: the outcome of each step is shown on standard error, and is in the report.
Rule 2: the figures of the report are those of the longest step at the rate that was found, or else of the last step.
Rule 3: Ctrl-C, SIGTERM, or a server that no longer answers ends the search; what is known by then is reported.
"""

from __future__ import annotations

import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import msgspec

from hsdns import __version__, memory
from hsdns.cli.command import FlagError, complain
from hsdns.corefile.tree import did_you_mean
from hsdns.limits import descriptor_limit, raise_limit
from hsdns.load.cli.plan_file import PlanFile, read_plan_file
from hsdns.load.cli.reports import Metrics, put_out, write_for_ci
from hsdns.load.cli.settings import LoadFlags, LoadSettings, read_settings
from hsdns.load.errors import LoadError, naming_files
from hsdns.load.knee import HELD, SHORTEST, KneeSearch, Step, outcome_of, queries_for
from hsdns.load.limits import Limit
from hsdns.load.questions import LABEL_LEN, Question, Questions, read_queries
from hsdns.load.schedule import Portion, Stage
from hsdns.resolver.forwarders import class_of
from hsdns.wire import counted
from hsdns.wire.name import MAX_NAME_LEN

if TYPE_CHECKING:
    from hsdns.cli.command import Command
    from hsdns.load.cli.cluster import LoadCluster
    from hsdns.load.cluster.job import Job, JobApi
    from hsdns.load.generators.meeting import Meeting
    from hsdns.load.plan import StreamPlan, Target
    from hsdns.load.report import KneeReport, KneeStep, Machine, PlanReport, Report
    from hsdns.load.results import Results
    from hsdns.plugins.kubernetes import Kubernetes
    from hsdns.wire.message import Reply

COMMANDS: Final = {"compare": "Compare", "merge": "Merge"}  # classes of reports.py


class Load(LoadFlags):
    """Loads servers, and reports what was measured."""

    name = "load"
    forms = """hsdns load PLAN.yaml [FLAG...]
       hsdns load --queries FILE [FLAG...]
       hsdns load --source NAME [ARGUMENT...] [FLAG...]
       hsdns load --replay FILE [FLAG...]
       hsdns load --pods NUMBER --source NAME [ARGUMENT...] [FLAG...]
       hsdns load compare FILE... [FLAG...]
       hsdns load merge FILE... [FLAG...]"""
    suggested = tuple(COMMANDS)
    interrupted = ("interrupted before the load began", 2)

    plan: PlanFile = msgspec.field(default_factory=PlanFile)

    @classmethod
    def main(cls, words: list[str]) -> int:
        """Carry out a load, or another command of its own; return the exit status."""
        if words and words[0] in COMMANDS:
            from hsdns.load.cli import reports

            other: type[Command] = getattr(reports, COMMANDS[words[0]])
            return other.main(words[1:])
        return super().main(words)

    @classmethod
    def parse(cls, words: list[str]) -> Self | None:
        """The command of these words, and of a plan file if the first of them is one."""
        plan = PlanFile()
        if words and not words[0].startswith("-"):
            with naming_files(hint=did_you_mean(words[0], COMMANDS)):
                plan = read_plan_file(words[0], cls.flags())
            words = words[1:]
        with plan.naming():
            found = super().parse([*plan.beside(words), *words])
        if found is not None:
            found.plan = plan
            if plan.stages:
                found.add_stages(plan.read_stages(super().parse))
        return found

    def run(self) -> int:
        """Carry it out, and put out the report; return the exit status."""
        with self.plan.naming(), naming_files(), Termination() as termination:
            settings = read_settings(self)
            metrics = Metrics(self.prometheus, self.push)
            generator = find_generator(self.part, self.coordinate, self.job)
            memory.set_up_collector()
            # What a run remembers of a cluster and of answers is many objects, nearly none of them in cycles: a full
            # collection would stop the verification and the changes for up to a second.
            with memory.growing(), meeting_of(generator) as meeting:
                generator = generator._replace(meeting=meeting)
                report, results = _run(settings, metrics, generator, termination)
            status = put_out(report, self)
            if generator.job is not None:
                from hsdns.load.report import encode

                complain(generator.put(encode(report)))
                status = 0  # the limits apply to all generators together
            metrics.finish(results, report)
            write_for_ci(report, self)
        return status


def _run(
    settings: LoadSettings, metrics: Metrics, generator: Generator, termination: Termination
) -> tuple[Report, dict[str, Results]]:
    from hsdns.load.generators.barrier import digest
    from hsdns.load.report import FORMAT, Report

    with ExitStack() as stack:
        cluster = _cluster(settings)
        if cluster is not None:
            stack.enter_context(cluster)
            if cluster.api is not None:
                complain(f"the cluster is at {cluster.api.url}")
        questions = questions_of(settings) if cluster is None else cluster.questions
        started = datetime.now(UTC)

        def load(step: LoadSettings) -> tuple[list[Results], PlanReport]:
            return _load(step, questions, cluster, metrics, generator, termination)

        knee = None
        if not settings.knee:
            servers, plan = load(settings)
            passed = (time.monotonic_ns() - servers[0].begin) / 1e9
            started = datetime.now(UTC) - timedelta(seconds=passed)  # when the schedule began
        else:
            knee, servers, plan = find_knee(settings, load)
    slack = settings.flags.slack if settings.flags.verify else None
    counted, clocks = [each.report() for each in servers], []
    if generator.meeting is not None:
        clocks = [generator.meeting.clock()]
        started = datetime.fromtimestamp(generator.meeting.start / 1e9, UTC)
    at = started.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    report = Report(
        FORMAT,
        at,
        plan,
        _machine(),
        counted,
        knee=knee,
        digest=digest(_essence(settings, questions, plan)),
        clocks=clocks,
    ).finish(slack, settings.limits)
    return report, {each.server.name: each for each in servers}


def _cluster(settings: LoadSettings) -> LoadCluster | None:
    from hsdns.cli.offline import configure
    from hsdns.cli.source import source_tokens
    from hsdns.load.cli.cluster import LoadCluster

    flags = settings.flags
    if not flags.has_cluster:
        return None
    objects = None if flags.source is None else source_tokens(flags.source, flags.conf)
    configuration, _ = configure(flags.conf, objects, runs_code=not flags.no_code)
    return LoadCluster(
        configuration,
        partial(questions_of, settings),
        verifies=flags.verify or class_of(flags.through).captures,
        serves=flags.api,
        changes_api=flags.churn_api,
        kinds=flags.churn_kinds,
        seed=flags.seed,
    )


def _load(
    settings: LoadSettings,
    questions: Questions,
    cluster: LoadCluster | None,
    metrics: Metrics,
    generator: Generator,
    termination: Termination,
) -> tuple[list[Results], PlanReport]:
    from hsdns.load.cli.cluster import following_changes
    from hsdns.load.cli.machine import Observer, is_own
    from hsdns.load.cli.progress import live
    from hsdns.load.plan import Plan, place_to_text
    from hsdns.load.results import kind_numbers
    from hsdns.load.run import Loaded, RunOptions, carry_out
    from hsdns.load.send.process import SenderProcess
    from hsdns.load.send.processors import AUTO, NONE
    from hsdns.load.send.sockets import check_sources
    from hsdns.load.send.udp import sockets_for, window_for
    from hsdns.load.verify.verifier import Verifier
    from hsdns.resolver import go

    flags, schedule = settings.flags, settings.schedule
    queries = [each.query(flags.edns) for each in questions.all]
    fastest = schedule.fastest if settings.replay is None else settings.replay.fastest
    sockets = len(settings.clients) or sockets_for(fastest, settings.timeout, settings.sockets)
    allow_descriptors(settings, sockets)
    places = [_find(settings, each, questions, cluster) for each in settings.targets]
    for family_and_address in places if settings.clients else ():
        check_sources(settings.clients, *family_and_address)
    truth = cluster.truth if cluster is not None and flags.verify else None
    # Of pods, some resolvers send an OPT record and some do not, so one in a reply is never wrong.
    edns = flags.edns if questions.pods is None else go.EDNS_SIZE
    told = _plan(settings, questions, sockets, generator.portion)
    with ExitStack() as stack:
        loaded, senders, observers = [], [], {}
        for target, (family, address) in zip(settings.targets, places, strict=True):
            plan = Plan(
                family,
                address,
                [each.octets(flags.edns) for each in questions.all],
                list(questions.weights),
                schedule,
                round(settings.timeout * 1e9),
                sockets,
                flags.verify,
                recorded=questions.recorded,
                pods=questions.pods,
                portion=generator.portion,
                kinds=kind_numbers(questions.all),
                streams=settings.streams,
                window=window_for(fastest, settings.timeout, schedule.largest),
                mixes=[list(each) for each in questions.mixes],
                clients=settings.clients,
                labels=flags.random_labels,
            )
            verifier = None
            if truth is not None:
                verifier = Verifier(truth, questions.all, flags.slack, edns, flags.ttl)
            # Where answers are judged, or several processes send, this one needs more than what is left.
            is_free = truth is None and len(places) == 1
            cpu = NONE if flags.cpu == AUTO and not is_free else flags.cpu
            sending = stack.enter_context(SenderProcess(plan, cpu))
            senders.append(sending)
            place = place_to_text(target.host, target.port)
            host = target.host if is_own(target.host) else ""
            is_udp = settings.streams is None or settings.streams.for_truncated
            observers[target.name] = Observer(
                sending.process.pid, os.getpid(), host, target.port, is_udp=is_udp
            )
            loaded.append(Loaded(target.name, place, sending, verifier))
        following = stack.enter_context(following_changes(settings, cluster, places, queries))
        shown = stack.enter_context(live(schedule.seconds, flags.live))

        def begin() -> int:
            """Begin the changes with the load: both have the same stages."""
            found = generator.begin(_essence(settings, questions, told))
            if cluster is not None:
                ahead = max(0.0, (found - time.monotonic_ns()) / 1e9)
                stack.enter_context(cluster.churning(schedule.churn(flags.churn, ahead)))
            return found

        def show(servers: Mapping[str, Results], seconds: float) -> None:
            for name, results in servers.items():
                observers[name].see(results, seconds)
            shown(servers, seconds)
            metrics.show(servers, seconds)

        def meanwhile() -> None:
            for each in observers.values():
                each.see(None, 0.0)
            following.take()
            if told := {} if cluster is None else cluster.told():
                for sender in senders:
                    sender.tell(told)

        options = RunOptions(
            lambda: () if truth is None else truth.changes,
            show,
            flags.keep_going,
            settings.limits,
            begin,
            meanwhile,
            termination.take,
        )
        servers = carry_out(
            loaded, questions.all, schedule.seconds, settings.timeout, options, time.monotonic_ns, time.sleep
        )  # fmt: skip
        for each in servers:
            seconds = (time.monotonic_ns() - each.begin) / 1e9
            observers[each.server.name].see(each, seconds, is_over=True)
    for number, each in enumerate(servers):
        found = each.server
        found.ended = found.ended or ("" if cluster is None else cluster.failure)
        found.propagation = following.report(number, each.begin / 1e9, found.seconds)
    return servers, told


def _plan(
    settings: LoadSettings, questions: Questions, sockets: int, portion: Portion
) -> PlanReport:
    from hsdns.load.plan import transport_words
    from hsdns.load.report import PlanReport

    flags, schedule = settings.flags, settings.schedule
    return PlanReport(
        transport_words(settings.streams) if questions.pods is None else questions.pods.transport,
        list(schedule.stages),
        schedule.arrival,
        schedule.burst,
        flags.seed,
        sockets,
        settings.timeout * 1000,
        len(questions.all if questions.pods is None else questions.pods.targets),
        in_words(settings, questions),
        flags.edns,
        flags.churn,
        portion.to_text(),
        flags.churn_kinds if flags.churn else {},
        settings.probes,
        settings.streams,
    )


def _essence(settings: LoadSettings, questions: Questions, plan: PlanReport) -> dict[str, Any]:
    """What the generators of one run have in common."""
    from hsdns.load.generators.barrier import digest
    from hsdns.load.generators.merge import alike
    from hsdns.load.report import plain

    flags = settings.flags
    given = questions.all if flags.queries or flags.replay else ()  # names of a cluster may change
    octets = [each.octets(flags.edns) for each in given]
    return {
        **plain(alike(plan)),
        "servers": [str(each) for each in settings.targets],
        "limits": [each.text for each in settings.limits],
        "slack": flags.slack if flags.verify else None,
        "content": digest({"questions": octets, "recorded": questions.recorded}),
    }


def _find(
    settings: LoadSettings, target: Target, questions: Questions, cluster: LoadCluster | None
) -> tuple[int, tuple[str | int, ...]]:
    """The family and address of a server that answers; with a simulated cluster, once it has read that."""
    from hsdns.load.send.probe import find_target, probe

    family, address = find_target(target.host, target.port)
    awaited = None if cluster is None else cluster.awaited
    query = (awaited or questions.first).query()
    has_cluster = cluster is not None and (cluster.api is not None or awaited is not None)

    def is_ready(reply: Reply) -> bool:
        return not has_cluster or bool(reply.answer)

    probe(family, address, query, settings.wait, is_ready, settings.streams)
    return family, address


def _machine() -> Machine:
    from hsdns.fastpath import IMPLEMENTATION
    from hsdns.load.report import Machine

    return Machine(
        __version__,
        platform.python_version(),
        f"{platform.system()} {platform.release()} {platform.machine()}",
        os.cpu_count() or 1,
        IMPLEMENTATION,
    )


class Termination:
    """Records SIGTERM; a context manager that does nothing outside the main thread."""

    def __init__(self) -> None:
        self._has_begun = False
        self._came = False
        self._before: Any = None

    def __enter__(self) -> Termination:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._before)

    def take(self) -> bool:
        """Whether it has arrived since the previous call; the first call marks the begin of the load."""
        self._has_begun = True
        came, self._came = self._came, False
        return came

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self._has_begun:
            raise KeyboardInterrupt
        self._came = True


SPARE: Final = 32  # descriptors for everything else


def allow_descriptors(settings: LoadSettings, sockets: int) -> None:
    """Raise the limit of descriptors for sockets and connections; raise FlagError if it is too low."""
    streams = settings.streams
    if streams is not None and not streams.for_truncated:
        needed = descriptors_needed(streams, settings.schedule.fastest, settings.timeout)
        what, remedy = f"{needed} connections", "lower --connections, --idle or --rate"
    else:
        connections = 0 if streams is None else streams.connections
        beside = f" and {connections} connections" if connections else ""
        needed = sockets + connections
        what, remedy = f"--sockets: {sockets} sockets{beside}", "ask from fewer"
    raise_limit()
    limit = descriptor_limit()
    if needed + SPARE > limit:
        raise FlagError(
            f"{what} may be open at once, and a process here may have {limit} descriptors (ulimit -Hn); "
            f"raise the limit, or {remedy}"
        )


def descriptors_needed(streams: StreamPlan, fastest: float, timeout: float) -> int:
    """How many connections may be open at once, including idle ones of earlier clients; times in seconds."""
    if not streams.queries or streams.idle <= 0:
        return streams.connections
    lingering = fastest / streams.queries * (streams.idle / 1e9 + timeout)
    return streams.connections + int(lingering) + 1


class Generator(NamedTuple):
    """This generator; `place` is where the first one listens, `meeting` with the others."""

    portion: Portion = Portion()
    place: tuple[str, int] | None = None
    job: Job | None = None
    api: JobApi | None = None
    meeting: Meeting | None = None

    def begin(self, plan: dict[str, Any]) -> int:
        """When to begin, in nanoseconds of the monotonic clock, 0 for at once; wait for the others; raise LoadError."""
        return 0 if self.meeting is None else self.meeting.begin(plan)

    def put(self, report: bytes) -> str:
        """Write the report to the place for all pods of the Job; return where; raise LoadError."""
        assert self.job is not None, "the caller asks only then"
        assert self.api is not None, "a Job was read from there"
        name = self.api.put_report(self.job, self.portion.part, report)
        return f"the report is in the ConfigMap {name} of the namespace {self.api.namespace}"


def find_generator(portion: Portion, place: tuple[str, int] | None, job: str) -> Generator:
    """Read this generator's settings from the flags or the Job; raise LoadError."""
    if not job:
        return Generator(portion, place)
    from hsdns.load.cluster.job import read_index

    index = read_index(os.environ)
    api = _api()
    found = api.job(job)
    if index >= found.completions:
        raise LoadError(
            f"--job: the Job {job} has {found.completions} completions, and no index {index}"
        )
    return Generator(Portion(index, found.completions), (api.own_address(), 0), found, api)


@contextmanager
def meeting_of(generator: Generator) -> Iterator[Meeting | None]:
    """Meet the other generators, as the coordinator if this is the first one; None without others."""
    if generator.place is None:
        yield None
        return
    from hsdns.load.generators.meeting import Coordinator, Meeting

    place, job, api = generator.place, generator.job, generator.api
    is_first = generator.portion.part == 0

    def find() -> tuple[str, int] | None:
        return place if is_first or job is None or api is None else api.coordinator(job)

    with ExitStack() as stack:
        if is_first:
            place = stack.enter_context(Coordinator(place, generator.portion.parts)).place
            if job is not None and api is not None:
                api.put_coordinator(job, *place)
        main = threading.main_thread().ident or 0
        interrupt = partial(signal.pthread_kill, main, signal.SIGTERM)
        yield stack.enter_context(Meeting(generator.portion, find, complain, interrupt))


def _api() -> JobApi:
    from hsdns.apiserver.access import InCluster
    from hsdns.load.cluster.job import JobApi, read_namespace

    source = InCluster(os.environ, time.monotonic, lambda message: None)
    for sentence in source.check():
        raise LoadError(f"--job: {sentence}")
    return JobApi(source, read_namespace())


def questions_of(settings: LoadSettings, blocks: Sequence[Kubernetes] = ()) -> Questions:
    """The questions; raise LoadError or OSError.  `blocks` are those of the cluster, if there is one."""
    found, flags = _questions(settings, blocks), settings.flags
    for each in found.all if flags.random_labels else ():
        if len(each.name.wire) + LABEL_LEN + 1 > MAX_NAME_LEN:
            raise LoadError(f"--random-labels: {each.name.to_text()} is too long for another label")
    if flags.do:
        found = found._replace(all=[each._replace(do=True) for each in found.all])
    return found


def _questions(settings: LoadSettings, blocks: Sequence[Kubernetes]) -> Questions:
    from hsdns.load.cluster.names import cluster_questions

    flags, replay = settings.flags, settings.replay
    if flags.queries:
        return Questions(_read_queries(flags.queries), seed=flags.seed)
    if replay is not None:
        return Questions(replay.questions, recorded=replay.recorded)
    if flags.pods is not None:
        from hsdns.load.cli.cluster import pod_plan

        return Questions([], seed=flags.seed, pods=pod_plan(settings, blocks))
    answer_sets = [block.answer_set() for block in blocks]
    return cluster_questions(answer_sets, settings.mix, flags.zipf, flags.seed, settings.mixes)


def _read_queries(path: str) -> list[Question]:
    if path == "-":
        return read_queries(sys.stdin, "standard input")
    with Path(path).open(encoding="utf-8", errors="replace") as file:
        return read_queries(file, path)


def in_words(settings: LoadSettings, questions: Questions) -> str:
    """A description of the questions, for the report."""
    pods, flags = questions.pods, settings.flags
    if pods is not None:
        resolvers = ", ".join(f"{name} {share}" for name, share in pods.resolvers.items())
        kinds = ", ".join(dict.fromkeys(each.kind for each in pods.targets))
        where = f"{pods.count} pods ({resolvers}) in {counted(len(pods.namespaces), 'namespace')}"
        if pods.through:
            where += f" through {pods.through}"
            where += "" if class_of(pods.through).captures else f" on {counted(pods.nodes, 'node')}"
        return f"lookups of {where}, {len(pods.targets)} names: {kinds}"
    count, is_replay = len(settings.clients), settings.replay is not None
    own = (
        ["each client with its own socket" if is_replay else f"from {count} clients"]
        if count
        else []
    )
    own += ["with random labels"] if flags.random_labels else []
    own += ["with DO"] if flags.do else []
    more = "".join(f", {each}" for each in own)
    if settings.replay is not None:
        return f"{settings.replay.what}{more.replace(',', ';', 1)}"
    groups = ", ".join(dict.fromkeys(each.group for each in questions.all))
    return f"{len(questions.all)} questions of {flags.queries or f'the cluster: {groups}'}{more}"


PATIENCE: Final = 10.0  # seconds for a server to answer again after a step
MOST_LATE: Final = 0.05  # share of a step: the p99 of lateness above which its rate was not kept


class Found(NamedTuple):
    """The result of a search, and the run whose figures are reported."""

    knee: KneeReport
    servers: list[Results]
    plan: PlanReport


def find_knee(
    settings: LoadSettings, load: Callable[[LoadSettings], tuple[list[Results], PlanReport]]
) -> Found:
    """Search for the knee; `load` carries out a run."""
    from hsdns.load.report import KneeReport
    from hsdns.load.run import INTERRUPTED

    flags, limits = settings.flags, settings.knee
    shortest = SHORTEST if flags.time is None else flags.time
    first = settings.schedule.stages[0].first
    search = KneeSearch(first, float(flags.max_rate), queries_for(limits), shortest)
    steps: list[KneeStep] = []
    kept: dict[float, tuple[Step, list[Results], PlanReport]] = {}
    newest = 0.0
    while (step := search.step) is not None:
        try:
            servers, plan = load(_at(settings, step, wait=PATIENCE if steps else 0.0))
        except LoadError as error:  # the server no longer answers; report what is known
            if not steps:
                raise
            complain(error)
            break
        if servers[0].server.ended == INTERRUPTED:
            if not steps:
                kept[step.rate] = step, servers, plan
                newest = step.rate
            break
        report = _step_report(limits, step, servers[0])
        steps.append(report)
        complain(_line(report))
        newest = step.rate
        before = kept.get(step.rate)
        if before is None or (report.outcome == HELD and step.seconds >= before[0].seconds):
            kept[step.rate] = step, servers, plan
        search.step_ended(report.outcome)
    found = search.knee()
    complain(found.sentence)
    _, servers, plan = kept[newest if found.holds is None else found.holds]
    return Found(KneeReport(*found, [limit.text for limit in limits], steps), servers, plan)


def _at(settings: LoadSettings, step: Step, wait: float) -> LoadSettings:
    stages = (Stage(step.seconds, step.rate, step.rate),)
    schedule = msgspec.structs.replace(settings.schedule, stages=stages)
    return settings._replace(schedule=schedule, wait=max(settings.wait, wait))


def _step_report(limits: Sequence[Limit], step: Step, server: Results) -> KneeStep:
    from hsdns.load.report import KneeStep
    from hsdns.load.results import measured_of
    from hsdns.load.run import FELL_BEHIND

    whole = server.whole()
    measured = measured_of(whole)
    late = whole.late_slots.percentile(99) or 0
    kept = server.server.ended != FELL_BEHIND and late <= step.seconds * 1e6 * MOST_LATE
    others = (whole.machine.others or 0) / (step.seconds * 1e6)
    outcome = outcome_of(limits, measured, answered=whole.counts.answered, kept=kept, others=others)
    counts = whole.counts
    return KneeStep(
        step.rate,
        step.seconds,
        outcome,
        counts.sent,
        counts.lost,
        [*measured.latency],
        [*measured.lateness],
    )


def _line(step: KneeStep) -> str:
    from hsdns.load.output.words import knee_step

    return f"{step.rate:.10g}/s for {step.seconds:g} s: {knee_step(step)}"
