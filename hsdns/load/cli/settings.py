"""The flags of `hsdns load`, and the settings that they define together.

Path: load.py -> here.
Rule 1: a flag that has no effect with the others is refused.
Rule 2: an incomplete recording is refused, unless -replay-broken uses its intact part; then standard error says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from hsdns.cli.command import FORMATS, NO_CODE, Command, Flag, FlagError, complain, flag
from hsdns.cli.source import SERVED
from hsdns.load.cli.knee import KneeSettings, knee_settings
from hsdns.load.cli.progress import LINE, WAYS, check_live
from hsdns.load.cluster.changes import DEFAULT, read_kinds
from hsdns.load.cluster.changes import KINDS as CHANGES
from hsdns.load.cluster.names import KINDS, POD_KINDS, cluster_targets, read_mix
from hsdns.load.errors import LoadError
from hsdns.load.limits import KNEE_LIMITS, Limit, read_limits
from hsdns.load.plan import (
    DOH,
    DOT,
    GET,
    HIGHEST_RATE,
    MOST_RATE,
    MOST_SECONDS,
    PATH,
    PORTS,
    POST,
    STAYS,
    TCP,
    TRANSPORTS,
    UDP,
    StreamPlan,
    Target,
    check_schedule,
    read_targets,
)
from hsdns.load.pods import FORMS, RESOLVERS, PodPlan, check_lengths, resolv_confs
from hsdns.load.questions import Questions, read_shares
from hsdns.load.replay import RECORDED, Replay, read_replay
from hsdns.load.schedule import (
    EVEN,
    POISSON,
    Portion,
    Schedule,
    Stage,
    read_arrival,
    read_portion,
    read_stages,
)
from hsdns.load.verify.verifier import SLACK
from hsdns.resolver import MODELS
from hsdns.wire.name import Name

if TYPE_CHECKING:
    from hsdns.plugins.kubernetes import Kubernetes

PORT: Final = 53
RATE: Final = "1000"
TIMEOUT: Final = 2.0  # seconds
SOCKETS: Final = 4
MOST_SOCKETS: Final = 20_000  # of the 28,000 ports that Linux gives by default
PROBES: Final = 0.1  # of the queries
MOST_PODS: Final = 100_000
POD_SOCKETS: Final = 64
REPLAY_PORT: Final = 53
FASTEST: Final = 1_000_000.0
_SERVER: Final = "192.0.2.53"  # in the resolv.confs; queries go to -server anyway
_NUMBERS: Final = ("ndots", "timeout", "attempts")
_OPTIONS: Final = (
    "rotate", "single-request", "single-request-reopen", "use-vc", "edns0", "trust-ad", "no-aaaa", "no-reload",
)  # fmt: skip
CONNECTIONS, PIPELINE = StreamPlan().connections, StreamPlan().pipeline


def _in_text(shares: Mapping[str, int]) -> str:
    return ",".join(f"{name}={share}" for name, share in shares.items())


_MIX: Final = ",".join(f"{kind}={share}" for kind, share in KINDS.items() if share)
_SERVERS: Final = (
    "the servers to load, all at once, each with a name and a port if wanted (default 127.0.0.1)"
)
_RATES: Final = (
    "1000, 100..5000 (a ramp), or several with commas, each with :TIME or an equal part of -time"
)
_API: Final = (
    "serve the simulated cluster of -source synthetic as a Kubernetes API, for the server to watch"
)
_CHURN_API: Final = (
    "make the changes at the API server of -conf, in a namespace that is made and removed again"
)
_KINDS: Final = f"shares of the kinds of changes: {', '.join(CHANGES)} (default renumber=1)"
_PROBES: Final = (
    "questions a second, at most, that follow changes (default with -churn: a tenth of -rate)"
)
_PODS: Final = "pods that look names up as their resolvers do; -rate is lookups a second"
_REPLAY: Final = "recording, or pcap or pcapng file, whose queries are asked at their times"
_EACH: Final = "queries on a connection, 1 for a new one each (default: any number)"
_KNEE: Final = (
    "find the highest rate at which limits hold, from -rate on; -time is the shortest step"
)
_JOB: Final = "the Indexed Job of which this is a pod: it says the portion, and gathers the reports"
_START: Final = "when the load begins, such as 2026-01-31T12:00:00Z, or +30s (default: at once)"
_PART: Final = "the portion of the plan that this generator has, such as 0/4, the first of four"
_SHARES: Final = "NAME=SHARE,..."


def _time(text: str) -> Flag:
    return flag(text, "TIME", time="10s", is_zero=True)


def _count(text: str, high: int, argument: str = "NUMBER", low: int = 1) -> Flag:
    return flag(text, argument, what="number", low=low, high=high)


_TRANSPORT: Final = flag(
    "how queries travel: udp (default), tcp, dot or doh", "NAME", choices=tuple(TRANSPORTS)
)


class ReportCommand(Command):
    """The flags of a command that writes a report."""

    # fmt: off
    junit: Annotated[str, flag("write the limits as test cases in JUnit's form to a file", "FILE")] = ""
    github: Annotated[bool, flag("append to the summary of a step of GitHub Actions, as is done where there is one")
    ] = False
    json: Annotated[str, flag("write the report as JSON to a file", "FILE")] = ""
    html: Annotated[str, flag("write the report as a page to a file", "FILE")] = ""
    o: Annotated[str, flag("format of standard output: text (default) or json", "FORMAT", choices=FORMATS)] = "text"
    # fmt: on


class LoadFlags(ReportCommand):
    """The flags of a load; times in seconds."""

    # fmt: off
    server: Annotated[list[str], flag(_SERVERS, "[NAME=]ADDRESS[:PORT]...", adds=True)] = []
    p: Annotated[
        int | None, flag(f"port of servers that are given none (default {PORT}; dot 853, doh 443)", "PORT", low=1)
    ] = None
    rate: Annotated[str, flag(f"queries a second: {_RATES} (default {RATE})", "RATE")] = RATE
    time: Annotated[float | None, _time("how long (default 10s)")] = None
    arrival: Annotated[
        str, flag("how queries arrive: even (default), poisson (default of -pods), or burst=COUNT", "WAY")
    ] = ""
    queries: Annotated[str, flag("file with NAME TYPE on each line, as dnsperf reads it (- is standard input)", "FILE")
    ] = ""
    source: Annotated[list[str] | None, SERVED] = None
    conf: Annotated[str | None, flag("Corefile whose kubernetes block says the cluster, as the server's does", "FILE")
    ] = None
    mix: Annotated[str, flag(f"shares of the kinds of names of the cluster (default {_MIX})", "KIND=SHARE,...")] = ""
    zipf: Annotated[
        str, flag("exponent of Zipf's law, by which names of a kind are drawn (default 0: all alike)", "NUMBER")
    ] = "0"

    pods: Annotated[int | None, _count(_PODS, MOST_PODS)] = None
    resolvers: Annotated[str, flag(f"shares of the pods' resolvers (default {_in_text(RESOLVERS)})", _SHARES)
    ] = _in_text(RESOLVERS)
    forms_: Annotated[
        str, flag(f"shares of the ways to write a name (default {_in_text(FORMS)})", _SHARES, name="forms")
    ] = _in_text(FORMS)
    external: Annotated[list[str], flag("names outside of the cluster that pods look up", "NAME...")] = []
    resolv_options: Annotated[list[str], flag("options of the pods' resolv.conf (default ndots:5)", "OPTION...")] = []
    node_search: Annotated[list[str], flag("search domains of the node, after those of the cluster", "DOMAIN...")] = []

    replay: Annotated[str, flag(_REPLAY, "FILE")] = ""
    speed: Annotated[str, flag("how many times as fast as they were recorded (default 1)", "NUMBER")] = "1"
    replay_port: Annotated[
        int, flag(f"port to which the queries of a capture went (default {REPLAY_PORT})", "PORT", low=1)
    ] = REPLAY_PORT
    replay_broken: Annotated[bool, flag("replay a broken file as far as it is whole")] = False

    seed: Annotated[int, _count("seed of all that is drawn (default 1)", 999_999_999, low=0)] = 1
    edns: Annotated[int, _count("payload size of an EDNS record (default: without one)", 65535, "OCTETS", 512)] = 0
    timeout: Annotated[float, _time("when a query is lost (default 2s)")] = TIMEOUT
    sockets: Annotated[
        int | None, _count(f"UDP ports that ask (default {SOCKETS}; with -pods {POD_SOCKETS})", MOST_SOCKETS)
    ] = None

    transport: Annotated[str, _TRANSPORT] = UDP
    retry_tcp: Annotated[bool, flag("ask again over TCP where an answer over UDP is truncated")] = False
    connections: Annotated[int, _count(f"connections at once at most (default {CONNECTIONS})", 100_000)] = CONNECTIONS
    queries_per_connection: Annotated[int, _count(_EACH, 10**9)] = 0
    pipeline: Annotated[int, _count(f"queries in flight on a connection (default {PIPELINE})", 60_000)] = PIPELINE
    idle: Annotated[float | None, _time("close a connection that has been idle for so long (default: it stays open)")
    ] = None
    tls_ca: Annotated[str, flag("file of the certificates to trust (default: those of this machine)", "FILE")] = ""
    tls_name: Annotated[str, flag("name that the certificate must have (default: the address)", "NAME")] = ""
    tls_insecure: Annotated[bool, flag("trust any certificate")] = False
    doh_path: Annotated[str, flag(f"path of the URL for DNS over HTTPS (default {PATH})", "PATH")] = PATH
    doh_method: Annotated[str, flag("post (default) or get", "METHOD")] = POST

    verify: Annotated[bool, flag("judge each answer by a watch of the same cluster")] = False
    slack: Annotated[float, _time("how far apart the watches of server and generator may be (default 100ms)")] = SLACK
    api: Annotated[str, flag(_API, "HOST:PORT")] = ""
    churn: Annotated[str, flag("changes a second of the cluster of -api, or of -churn-api", "RATE")] = ""
    churn_api: Annotated[bool, flag(_CHURN_API)] = False
    churn_kinds: Annotated[str, flag(_KINDS, "KIND=SHARE,...")] = ""
    probes: Annotated[str, flag(_PROBES, "RATE")] = ""
    wait: Annotated[float, _time("how long to wait for the server to answer (default 0s: three queries)")] = 0.0
    fail_if: Annotated[str, flag("limits that make the exit status 1: p99>5ms,stale>0,loss>0.1%", "LIMIT,...")] = ""
    find_knee: Annotated[bool, flag(_KNEE)] = False
    knee_limits: Annotated[str, flag(f"the limits of -find-knee (default {KNEE_LIMITS})", "LIMIT,...")] = KNEE_LIMITS
    part: Annotated[str, flag(_PART, "INDEX/COUNT")] = ""
    start_at: Annotated[str, flag(_START, "TIME")] = ""
    job: Annotated[str, flag(_JOB, "NAME")] = ""
    live: Annotated[str, flag("what is shown meanwhile: line (default), screen, or none", "HOW", choices=WAYS)] = LINE
    prometheus: Annotated[str, flag("write metrics to a file, now and then and at the end", "FILE")] = ""
    push: Annotated[str, flag("send metrics to a Pushgateway, now and then and at the end", "URL")] = ""
    i_own_this: Annotated[list[str], flag("addresses of your own that are neither loopback nor private", "ADDRESS...")
    ] = []
    max_rate: Annotated[int, _count(f"ceiling of -rate (default {MOST_RATE:g})", HIGHEST_RATE, "RATE")] = int(MOST_RATE)
    max_time: Annotated[float, _time(f"ceiling of -time (default {MOST_SECONDS / 3600:g}h)")] = MOST_SECONDS
    keep_going: Annotated[bool, flag("go on though every query fails")] = False
    no_code: Annotated[bool, NO_CODE] = False
    # fmt: on

    @property
    def has_cluster(self) -> bool:
        """Whether a cluster is given."""
        return self.source is not None or self.conf is not None

    def uses(self, name: str) -> bool:
        """Whether a flag is given, and is no switch that is off."""
        return name in self.given and getattr(self, name.replace("-", "_")) is not False


class PodSettings(NamedTuple):
    """The settings of pods."""

    pods: int
    resolvers: dict[str, int]
    forms: dict[str, int]
    external: list[str]
    options: dict[str, str]
    searches: list[str]
    mix: dict[str, int] | None


class ReplaySettings(NamedTuple):
    """What is replayed, and its description in the report."""

    replay: Replay
    what: str

    def schedule(self, seed: int) -> Schedule:
        """A schedule with its length and number of queries; the times themselves are those of the recording."""
        rate = self.replay.queries / self.replay.seconds
        return Schedule((Stage(self.replay.seconds, rate, rate),), RECORDED, 1, seed)


class LoadSettings(NamedTuple):
    """What the flags mean together; times in seconds.  `api` is host and port, if given."""

    flags: LoadFlags
    targets: list[Target]
    schedule: Schedule
    timeout: float
    sockets: int
    wait: float
    churn: float
    churn_kinds: dict[str, int]
    probes: float
    zipf: float
    limits: list[Limit]
    mix: dict[str, int] | None
    api: tuple[str, int] | None
    portion: Portion
    streams: StreamPlan | None  # over connections, all queries or truncated ones
    pods: PodSettings | None
    replay: ReplaySettings | None
    knee: KneeSettings | None


def read_settings(flags: LoadFlags) -> LoadSettings:
    """Read the flags; raise LoadError or FlagError."""
    port = PORTS[flags.transport] if flags.p is None else flags.p
    targets = read_targets(flags.server or ["127.0.0.1"], port, flags.i_own_this)
    _check_together(flags)
    replay = read_replay_flags(flags)
    pods = read_pods(flags)
    if replay is not None:
        schedule = replay.schedule(flags.seed)
    else:
        arrival, burst = read_arrival(flags.arrival or (EVEN if pods is None else POISSON))
        schedule = Schedule(read_stages(flags.rate, flags.time), arrival, burst, flags.seed)
    check_schedule(schedule, flags.max_rate, flags.max_time)
    _check_parts(flags)
    check_live(flags.live)
    if not flags.timeout:
        raise FlagError("-timeout 0s: every query would be lost at once; give it a time such as 2s")
    streams = read_streams(flags)
    return LoadSettings(
        flags,
        targets=targets,
        schedule=schedule,
        timeout=flags.timeout if pods is None else longest_timeout(pods),
        sockets=flags.sockets or (SOCKETS if pods is None else POD_SOCKETS),
        wait=flags.wait,
        churn=_number("churn", flags.churn, 0.0, 100_000.0),
        churn_kinds=read_kinds(flags.churn_kinds) if flags.churn_kinds else dict(DEFAULT),
        probes=_probes(flags, streams, schedule),
        zipf=_number("zipf", flags.zipf, 0.0, 10.0),
        limits=_limits(flags),
        mix=read_mix(flags.mix) if flags.mix and pods is None else None,
        api=_host_and_port(flags.api) if flags.api else None,
        portion=read_portion(flags.part) if flags.part else Portion(),
        streams=streams,
        pods=pods,
        replay=replay,
        knee=knee_settings(flags, schedule.stages, len(targets)),
    )


_ANY: Final = (TCP, DOT, DOH)
# Flags of connections, and their transports.
_FOR: Final = {
    **dict.fromkeys(("connections", "queries-per-connection", "pipeline", "idle"), _ANY),
    **dict.fromkeys(("tls-ca", "tls-name", "tls-insecure"), (DOT, DOH)),
    **dict.fromkeys(("doh-path", "doh-method"), (DOH,)),
}
STREAM_FLAGS: Final = ("transport", "retry-tcp", *_FOR)
POD_FLAGS: Final = ("resolvers", "forms", "external", "resolv-options", "node-search")
REPLAY_FLAGS: Final = ("speed", "replay-port", "replay-broken")


def read_streams(flags: LoadFlags) -> StreamPlan | None:
    """Read the flags; None for UDP only.  Raise FlagError."""
    transport = flags.transport
    if flags.retry_tcp and transport != UDP:
        raise FlagError(
            f"-retry-tcp is for answers over UDP, and -transport is {transport}; leave one of them out"
        )
    if transport != UDP and flags.sockets is not None:
        raise FlagError(
            f"-sockets is for UDP, and -transport is {transport}; -connections says how many there are"
        )
    used = TCP if flags.retry_tcp else transport
    for name, transports in _FOR.items():
        if flags.uses(name) and used not in transports:
            needed = " or ".join(transports)
            more = ", or -retry-tcp" if transports is _ANY else ""
            raise FlagError(f"-{name} needs -transport {needed}{more}")
    if used == UDP:
        return None
    if flags.tls_insecure and flags.tls_ca:
        raise FlagError(
            "-tls-insecure trusts any certificate, -tls-ca only some; leave one of them out"
        )
    return StreamPlan(
        used,
        flags.connections,
        flags.pipeline,
        flags.queries_per_connection,
        STAYS if flags.idle is None else round(flags.idle * 1e9),
        flags.tls_ca,
        flags.tls_name,
        flags.tls_insecure,
        _path(flags.doh_path),
        _method(flags.doh_method),
        flags.retry_tcp,
    )


def _path(text: str) -> str:
    if not text.startswith("/") or not text.isascii() or not text.isprintable() or " " in text:
        raise FlagError(f'-doh-path needs a path such as {PATH}, found "{text}"')
    if "{" in text:
        raise FlagError(
            f'-doh-path: leave {text[text.index("{") :]} out of "{text}"; the query is added where it belongs'
        )
    return text


def _method(text: str) -> str:
    if text.lower() not in (GET, POST):
        raise FlagError(f'-doh-method needs post or get, found "{text}"')
    return text.lower()


def read_pods(flags: LoadFlags) -> PodSettings | None:
    """Read the flags; None without -pods.  Raise LoadError or FlagError."""
    if flags.pods is None:
        for name in POD_FLAGS:
            if name in flags.given:
                raise FlagError(f"-{name} needs -pods")
        return None
    for name, why in (
        ("queries", "asks what is in a file, -pods look up names of a cluster"),
        ("edns", "is for all queries, but resolvers have their own ways: -resolv-options edns0 is for glibc"),
        ("timeout", "is for queries, but resolvers have their own: -resolv-options timeout:2"),
    ):  # fmt: skip
        if name in flags.given:
            raise FlagError(f"-{name} {why}; leave one of them out")
    for name in STREAM_FLAGS:
        if name in flags.given:
            raise FlagError(
                f"-{name} is for queries, and pods use UDP, and TCP as their resolvers do; leave it out"
            )
    return PodSettings(
        flags.pods,
        _shares("resolvers", flags.resolvers, MODELS, "resolver"),
        _shares("forms", flags.forms_, FORMS, "form of a name"),
        _names("external", flags.external),
        _read_options(flags.resolv_options),
        _names("node-search", flags.node_search),
        read_mix(flags.mix, POD_KINDS) if flags.mix else None,
    )


def _shares(flag: str, text: str, known: Mapping[str, object], what: str) -> dict[str, int]:
    found = read_shares(text, known, flag, what, alone=True)
    return {name: share for name, share in found.items() if share}


def pod_questions(
    settings: PodSettings, blocks: Sequence[Kubernetes], exponent: float, seed: int
) -> Questions:
    """The lookups of the pods of a cluster; raise LoadError."""
    if len(blocks) != 1:
        raise LoadError(
            f"-pods needs one kubernetes block, but the Corefile has {len(blocks)}; leave one in it"
        )
    answer_set = blocks[0].answer_set()
    zone, targets, weights = cluster_targets(
        answer_set, settings.external, settings.mix, exponent, seed
    )
    domain = zone.to_text().rstrip(".")
    namespaces = sorted(label.decode("latin-1") for label in answer_set.exposed_namespaces())
    namespaces = namespaces[: settings.pods]
    plan = PodPlan(
        settings.pods,
        namespaces,
        resolv_confs(namespaces, _SERVER, domain, settings.searches, settings.options),
        domain,
        settings.resolvers,
        settings.forms,
        targets,
        weights,
        seed,
    )
    check_lengths(plan)
    return Questions([], seed=seed, pods=plan)


def longest_timeout(settings: PodSettings) -> float:
    """Seconds after which a query of the pods is lost: the longest wait of their resolvers."""
    text = "options " + " ".join(
        f"{name}:{value}" for name, value in settings.options.items() if value
    )
    return float(max(MODELS[name].read(text).timeout for name in settings.resolvers))


def in_words(plan: PodPlan) -> str:
    """A description of the lookups, for the report."""
    resolvers = ", ".join(f"{name} {share}" for name, share in plan.resolvers.items())
    kinds = ", ".join(dict.fromkeys(each.kind for each in plan.targets))
    where = f"{plan.count} pods ({resolvers}) in {len(plan.namespaces)} namespaces"
    return f"lookups of {where}, {len(plan.targets)} names: {kinds}"


def _names(flag: str, words: list[str]) -> list[str]:
    for word in words:
        try:
            Name.from_text(word)
        except ValueError as error:
            raise FlagError(f'-{flag}: "{word}" is no name: {error}') from None
    return words


def _read_options(words: list[str]) -> dict[str, str]:
    """The options of resolv.conf; a library must know each."""
    found: dict[str, str] = {}
    for word in words:
        name, colon, value = word.partition(":")
        if name in _NUMBERS and value.isascii() and value.isdigit():
            found[name] = value
        elif name in _OPTIONS and not colon:
            found[name] = ""
        else:
            raise FlagError(
                f'-resolv-options: "{word}" is no option of resolv.conf; there are '
                f"{', '.join(f'{each}:NUMBER' for each in _NUMBERS)}, {', '.join(_OPTIONS)}"
            )
    return found


_OTHERS: Final = {
    "queries": "asks what is in another file",
    "pods": "look names up at times of their own",
    "mix": "draws names of a cluster",
    "zipf": "draws names of a cluster",
    "rate": "is that of the recording; -speed changes it",
    "arrival": "is that of the recording",
}


def read_replay_flags(flags: LoadFlags) -> ReplaySettings | None:
    """Read the flags and the file; None without -replay.  Raise LoadError, FlagError or OSError."""
    if not flags.replay:
        for name in REPLAY_FLAGS:
            if name in flags.given:
                raise FlagError(f"-{name} needs -replay")
        return None
    for name, why in _OTHERS.items():
        if name in flags.given:
            raise FlagError(f"-{name} {why}; leave it or -replay out")
    try:
        speed = float(flags.speed)
    except ValueError:
        speed = 0.0
    if not 1 / FASTEST <= speed <= FASTEST:
        raise FlagError(f'-speed needs a number such as 2 or 0.5, found "{flags.speed}"')
    replay = read_replay(flags.replay, speed=speed, port=flags.replay_port, longest=flags.time)
    if replay.problem:
        if not flags.replay_broken:
            told = f"-replay-broken replays the {replay.queries} queries before"
            raise LoadError(f"{replay.problem}; {told}")
        complain(f"{replay.problem}; what is before is replayed")
    if replay.fastest > flags.max_rate:
        raise LoadError(
            f"-replay: {replay.fastest} queries in a second are above the ceiling of {flags.max_rate}; "
            f"-max-rate {replay.fastest} lifts it, a lower -speed stays below"
        )
    return ReplaySettings(replay, _replay_words(flags.replay, replay, speed))


def _replay_words(path: str, replay: Replay, speed: float) -> str:
    told = f"{replay.queries} queries of {path}, {len(replay.questions)} different ones, from {replay.clients} clients"
    told += f", at speed {speed:g}"
    if replay.left_out:
        told += "; left out: " + ", ".join(
            f"{why} {count}" for why, count in replay.left_out.items()
        )
    return told


# Flags that have no effect without another one, and that one.
_NEEDED: Final = (
    ("slack", ("verify",)),
    ("churn", ("api", "churn-api")),
    ("churn-api", ("churn",)),
    ("churn-kinds", ("churn",)),
    ("probes", ("verify",)),
    ("api", ("source", "conf")),
    ("verify", ("source", "conf")),
    ("mix", ("source", "conf")),
    ("zipf", ("source", "conf")),
    ("pods", ("source", "conf")),
)


def _check_together(flags: LoadFlags) -> None:
    if not flags.queries and not flags.replay and not flags.has_cluster:
        raise FlagError(
            "what is to be asked? add -queries FILE, -replay FILE, or a cluster whose names are asked: -source or -conf"
        )
    for name, needed in _NEEDED:
        if flags.uses(name) and not any(flags.uses(each) for each in needed):
            raise FlagError(f"-{name} needs {' or '.join(f'-{each}' for each in needed)}")
    for name in ("mix", "zipf"):
        if name in flags.given and flags.queries:
            raise FlagError(
                f"-{name} draws names of a cluster, -queries asks those of a file in order; "
                "leave one of them out"
            )


def _limits(flags: LoadFlags) -> list[Limit]:
    if not flags.fail_if:
        return []
    has_pods = flags.pods is not None
    return read_limits(
        flags.fail_if, verifies=flags.verify, has_pods=has_pods, finds_knee=flags.find_knee
    )


def _probes(flags: LoadFlags, streams: StreamPlan | None, schedule: Schedule) -> float:
    """Probes per second that follow changes: -probes, or a share of the load's rate."""
    if streams is not None and not streams.for_truncated:
        if flags.probes:
            raise FlagError(
                "-probes asks over UDP, and this load is over connections; leave it out"
            )
        return 0.0
    if flags.probes:
        return _number("probes", flags.probes, 0.0, 100_000.0)
    return schedule.fastest * PROBES if flags.churn and flags.verify else 0.0


def _check_parts(flags: LoadFlags) -> None:
    """Raise FlagError for flags that several generators cannot use."""
    if flags.part and flags.job:
        raise FlagError("-part: the Job of -job says which portion this is; leave one of them out")
    if flags.churn_api and (flags.api or flags.conf is None):
        raise FlagError(
            "-churn-api needs -conf, a Corefile that says which API server; -api serves a simulated cluster instead"
        )
    if flags.churn_api and (flags.part or flags.job):
        raise FlagError(
            "-churn-api: each generator would change a namespace of its own; leave -part and -job out"
        )
    for name in ("part", "job"):
        if name in flags.given and flags.api:
            raise FlagError(
                f"-{name}: each generator would make up a cluster of its own for -api; leave one of them out"
            )


def _number(name: str, text: str, low: float, high: float) -> float:
    """The value of a flag, `low` without one."""
    try:
        number = float(text or low)
    except ValueError:
        number = -1.0
    if not low <= number <= high:
        raise FlagError(f'-{name} needs a number from {low:g} to {high:g}, found "{text}"')
    return number


def _host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise FlagError(f'-api needs an address and a port such as 127.0.0.1:8001, found "{text}"')
    return host.removeprefix("[").removesuffix("]"), int(port)
