"""The flags of `hsdns load`, and the settings that they define together.

Path: load.py -> here.
Rule 1: a flag that has no effect with the others is refused.
Rule 2: an incomplete recording is refused, unless -replay-broken uses its intact part; then standard error says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from msgspec import structs

from hsdns.cli.command import NO_CODE, OUTPUT, Command, Flag, FlagError, complain, flag
from hsdns.cli.source import SERVED
from hsdns.corefile.keys import split_host_port
from hsdns.load.cli.progress import LINE, WAYS, check_live
from hsdns.load.cluster.changes import DEFAULT, read_kinds
from hsdns.load.cluster.changes import KINDS as CHANGES
from hsdns.load.cluster.names import KINDS, POD_KINDS, read_mix
from hsdns.load.errors import LoadError
from hsdns.load.limits import KNEE_LIMITS, Limit, read_knee_limits, read_limits
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
    read_clients,
    read_targets,
)
from hsdns.load.pods import FORMS, RESOLVERS, types_of
from hsdns.load.questions import read_shares
from hsdns.load.replay import Replay, read_replay
from hsdns.load.schedule import (
    EVEN,
    POISSON,
    WHOLE,
    Portion,
    Schedule,
    Stage,
    read_arrival,
    read_portion,
    read_stages,
)
from hsdns.load.send.processors import AUTO, NONE
from hsdns.load.verify.message import MOST_TTL
from hsdns.load.verify.verifier import SLACK
from hsdns.resolver import MODELS, looks_up
from hsdns.resolver.forwarders import FORWARDERS, class_of
from hsdns.wire.name import Name

PERFDATA: Final = "perfdata"
TIMEOUT: Final = 2.0  # seconds
SOCKETS: Final = 4
MOST_SOCKETS: Final = 20_000  # of the 28,000 ports that Linux gives by default
DO_SIZE: Final = 1232  # octets; what fits into a packet of IPv6
PROBES: Final = 0.1  # of the queries
MOST_PODS: Final = 100_000
POD_SOCKETS: Final = 64
BETWEEN_TIMEOUT: Final = 5.0  # seconds: the longest wait of a forwarder that ends a query
FASTEST: Final = 1_000_000.0
_NUMBERS: Final = ("ndots", "timeout", "attempts")
_OPTIONS: Final = (
    "rotate", "single-request", "single-request-reopen", "use-vc", "edns0", "trust-ad", "no-aaaa", "no-reload",
)  # fmt: skip
CONNECTIONS, PIPELINE = StreamPlan().connections, StreamPlan().pipeline


def _in_text(shares: Mapping[str, int]) -> str:
    return ",".join(f"{name}={share}" for name, share in shares.items() if share)


def _time(text: str) -> Flag:
    return Flag.of(text, "TIME", time="10s", is_zero=True)


def _count(text: str, high: int, argument: str = "NUMBER", low: int = 1) -> Flag:
    return Flag.of(text, argument, low=low, high=high)


def _number(name: str, text: str, argument: str, high: float, usual: float | None = 0.0) -> Flag:
    """A flag that takes any number from 0 on."""

    def read(found: str) -> float:
        if not 0 <= (number := _float(found)) <= high:
            raise FlagError(f'--{name} needs a number from 0 to {high:g}, found "{found}"')
        return number

    return Flag.of(text, argument, read=_unless_empty(read, usual))


def _unless_empty(read: Callable[[str], Any], usual: Any) -> Callable[[str], Any]:
    """Reads a flag whose empty word, as of a variable that is not set, is as if it were not given."""
    return lambda text: read(text) if text else usual


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0


# Those that look up addresses.
_PROGRAMS: Final = {name: model for name, model in MODELS.items() if looks_up(name, types_of(""))}


def _shares(name: str, text: str, known: Mapping[str, Any], usual: Mapping[str, int], what: str) -> Flag:  # fmt: skip
    """A flag that takes the shares of kinds of pods."""

    def read(found: str) -> dict[str, int]:
        shares = read_shares(found, known, name, what, alone=True)
        return {kind: share for kind, share in shares.items() if share}

    return Flag.of(
        f"shares of the {text} (default {_in_text(usual)})", "NAME=SHARE,...", name=name, read=read
    )


def _names(name: str, text: str, argument: str) -> Flag:
    """A flag that takes domain names."""

    def read(words: list[str]) -> list[str]:
        for word in words:
            try:
                Name.from_text(word)
            except ValueError as error:
                raise FlagError(f'--{name}: "{word}" is not a domain name: {error}') from None
        return words

    return Flag.of(text, argument, read=read)


def _cpu(word: str) -> str:
    if word in ("", AUTO, NONE) or (word.isascii() and word.isdigit() and len(word) < 5):
        return word or AUTO
    raise FlagError(f'--cpu needs a number, auto or none, found "{word}"')


def _resolv_options(words: list[str]) -> list[str]:
    """The options of resolv.conf; a library must know each."""
    for word in words:
        name, _, value = word.partition(":")
        if word not in _OPTIONS and not (name in _NUMBERS and value.isascii() and value.isdigit()):
            raise FlagError(
                f'--resolv-options: "{word}" is not an option of resolv.conf; there are '
                f"{', '.join(f'{each}:NUMBER' for each in _NUMBERS)}, {', '.join(_OPTIONS)}"
            )
    return words


def _speed(text: str) -> float:
    if not 1 / FASTEST <= (speed := _float(text)) <= FASTEST:
        raise FlagError(f'--speed needs a number such as 2 or 0.5, found "{text}"')
    return speed


def _path(text: str) -> str:
    if not text.startswith("/") or not text.isascii() or not text.isprintable() or " " in text:
        raise FlagError(f'--doh-path needs a path such as {PATH}, found "{text}"')
    if "{" in text:
        raise FlagError(
            f'--doh-path: leave {text[text.index("{") :]} out of "{text}"; the query is added where it belongs'
        )
    return text


def _method(text: str) -> str:
    if text.lower() not in (GET, POST):
        raise FlagError(f'--doh-method needs post or get, found "{text}"')
    return text.lower()


def _host_and_port(name: str, text: str) -> tuple[str, int]:
    found = split_host_port(text)
    if found is None or not found.host:
        raise FlagError(
            f'--{name} needs an address and a port such as 127.0.0.1:8001, found "{text}"'
        )
    return found


class ReportCommand(Command):
    """The flags of a command that writes a report."""

    # fmt: off
    junit: str = flag("", "write the limits to a file as JUnit test cases", "FILE")
    github: bool = flag(False, "append to the step summary of GitHub Actions (default in a step)")
    json: str = flag("", "write the report to a file as JSON", "FILE")
    html: str = flag("", "write the report to a file as HTML", "FILE")
    o: str = flag("text",
        OUTPUT, help="format of standard output: text (default), json, or perfdata, which perfdash of Kubernetes draws",
        choices=(*OUTPUT.choices, PERFDATA))
    # fmt: on


class LoadFlags(ReportCommand):
    """The flags of a load; times in seconds."""

    # fmt: off
    server: list[str] = flag([], "the servers to load, all at once; name and port are optional (default 127.0.0.1)",
        "[NAME=]ADDRESS[:PORT]...", adds=True)
    p: int | None = flag(None, "port of servers without one (default 53; dot 853, doh 443)", "PORT", low=1)
    rate: str = flag("1000",
        "queries a second: 1000, 100..5000 (a ramp), or several with commas, each with :TIME or a part of --time "
        "(default 1000)", "RATE")
    time: float | None = flag(None, _time("duration of the load (default 10s)"))
    arrival: tuple[str, int] | None = flag(None,
        "how queries arrive: even (default), poisson (default of --pods), or burst=COUNT", "WAY",
        read=_unless_empty(read_arrival, None))
    queries: str = flag("", "file with NAME TYPE on each line, as dnsperf reads it (- is standard input)", "FILE")
    source: list[str] | None = flag(None, SERVED)
    conf: str | None = flag(None, "Corefile of the server; its kubernetes block names the cluster", "FILE")
    mix: str = flag("",
        f"shares of the kinds of names of the cluster (default {_in_text(KINDS)})", "KIND=SHARE,...")
    zipf: float = flag(0.0, _number(
        "zipf", "Zipf exponent for the popularity of names (default 0: all alike)", "NUMBER", 10.0))

    pods: int | None = flag(None, _count(
        "pods that look names up as their resolvers do; --rate is lookups a second", MOST_PODS))
    resolvers: dict[str, int] = flag(dict(RESOLVERS),
        _shares("resolvers", "pods' programs", _PROGRAMS, RESOLVERS, "program that looks up addresses"))
    forms_: dict[str, int] = flag(dict(FORMS),
        _shares("forms", "ways to write a name", FORMS, FORMS, "form of a name"))
    external: list[str] = flag([], _names("external", "names outside of the cluster that pods look up", "NAME..."))
    through: str = flag("", "forwarder for the queries of the pods of a node", "NAME", choices=tuple(FORWARDERS))
    nodes: int | None = flag(None, _count(
        "nodes of the pods, each with a forwarder of --through (default: one for each 110 pods)", MOST_PODS))
    resolv_options: list[str] = flag([],
        "options of the pods' resolv.conf (default ndots:5)", "OPTION...", read=_resolv_options)
    node_search: list[str] = flag([], _names(
        "node-search", "search domains of the node, after those of the cluster", "DOMAIN..."))

    replay: str = flag("", "recording, pcap or pcapng file whose queries to send, at their times", "FILE")
    speed: float = flag(1.0, "speed relative to the recording (default 1)", "NUMBER", read=_speed)
    replay_port: int | None = flag(None,
        "port to which the queries of a capture of packets went (default 53)", "PORT", low=1)
    clients: tuple[str, ...] = flag((),
        "addresses of this machine, each a client with a socket or connection of its own, or `any` address for each "
        "client of --replay", "NETWORK", read=_unless_empty(read_clients, ()))
    random_labels: bool = flag(False, "prefix each name with a random label, to bypass caches")
    replay_broken: bool = flag(False, "replay a damaged file up to the damage")

    seed: int = flag(1, _count("random seed (default 1)", 999_999_999, low=0))
    do: bool = flag(False, f"request DNSSEC records (the DO bit); implies --edns {DO_SIZE}")
    edns: int = flag(0, _count("payload size of an EDNS record (default: without one)", 65535, "OCTETS", 512))
    timeout: float = flag(TIMEOUT, _time("time after which a query counts as lost (default 2s)"))
    sockets: int | None = flag(None, _count(
        f"UDP ports to send from (default {SOCKETS}; with --pods {POD_SOCKETS})", MOST_SOCKETS))

    cpu: str = flag(AUTO,
        "CPU that sends: a number, none for any, or auto (default), the idlest of three or more", "NUMBER",
        read=_cpu)

    transport: str = flag(UDP,
        "how queries travel: udp (default), tcp, dot or doh", "NAME", choices=tuple(TRANSPORTS))
    retry_tcp: bool = flag(False, "retry over TCP where an answer over UDP is truncated")
    connections: int = flag(CONNECTIONS, _count(f"maximum number of connections (default {CONNECTIONS})", 100_000))
    queries_per_connection: int = flag(0, _count(
        "queries per connection; 1 opens a new one for each (default: no limit)", 10**9))
    pipeline: int = flag(PIPELINE, _count(f"queries in flight on a connection (default {PIPELINE})", 60_000))
    idle: float | None = flag(None,
        _time("close connections that have been idle for this time (default: never)"))
    tls_ca: str = flag("", "file of the certificates to trust (default: those of this machine)", "FILE")
    tls_name: str = flag("", "name that the certificate must have (default: the address)", "NAME")
    tls_insecure: bool = flag(False, "trust any certificate")
    doh_path: str = flag(PATH, f"path of the URL for DNS over HTTPS (default {PATH})", "PATH", read=_path)
    doh_method: str = flag(POST, "post (default) or get", "METHOD", read=_method)

    verify: bool = flag(False, "check each answer against a watch of the same cluster")
    slack: float = flag(SLACK, _time("allowed lag between the watches of server and generator (default 100ms)"))
    ttl: int = flag(MOST_TTL, _count(f"highest correct TTL in seconds (default {MOST_TTL})", 604_800, low=0))
    api: tuple[str, int] | None = flag(None,
        "serve the simulated cluster of --source synthetic as a Kubernetes API, for the server to watch", "HOST:PORT",
        read=_unless_empty(partial(_host_and_port, "api"), None))
    churn: float = flag(0.0, _number(
        "churn", "changes per second to the cluster of --api or --churn-api", "RATE", 100_000.0))
    churn_api: bool = flag(False, "make the changes at the API server of --conf, in a temporary namespace")
    churn_kinds: dict[str, int] = flag(dict(DEFAULT),
        f"shares of the kinds of changes: {', '.join(CHANGES)} (default renumber=1)", "KIND=SHARE,...", read=read_kinds)
    probes: float | None = flag(None, _number(
        "probes", "maximum queries per second that follow changes (default with --churn: a tenth of --rate)", "RATE",
        100_000.0, None))
    wait: float = flag(0.0, _time("how long to wait for the server to answer (default 0s: three queries)"))
    fail_if: str = flag("", "limits; exceeding one makes the exit status 1: p99>5ms,stale>0,loss>0.1%", "LIMIT,...")
    find_knee: bool = flag(False,
        "find the highest rate within the limits, starting at --rate; --time is the shortest step")
    knee_limits: str = flag(KNEE_LIMITS, f"the limits of --find-knee (default {KNEE_LIMITS})", "LIMIT,...")
    part: Portion = flag(WHOLE,
        "the portion of the plan for this generator, such as 0/4, the first of four", "INDEX/COUNT",
        read=_unless_empty(read_portion, WHOLE))
    coordinate: tuple[str, int] | None = flag(None,
        "address of generator 0, at which all generators begin together", "HOST:PORT",
        read=_unless_empty(partial(_host_and_port, "coordinate"), None))
    job: str = flag("", "the Indexed Job of this pod; it sets the portion and collects the reports", "NAME")
    live: str = flag(LINE, "progress display: line (default), screen, or none", "HOW", choices=WAYS)
    prometheus: str = flag("", "write metrics to a file, periodically and at the end", "FILE")
    push: str = flag("", "send metrics to a Pushgateway, periodically and at the end", "URL",
        read=lambda url: check_gateway(url) if url else "")
    i_own_this: list[str] = flag([], "public addresses that belong to you", "ADDRESS...")
    max_rate: int = flag(int(MOST_RATE), _count(f"highest --rate (default {MOST_RATE:g})", HIGHEST_RATE, "RATE"))
    max_time: float = flag(MOST_SECONDS, _time(f"longest --time (default {MOST_SECONDS / 3600:g}h)"))
    keep_going: bool = flag(False, "continue even if every query fails")
    no_code: bool = flag(False, NO_CODE)
    # fmt: on

    stages: tuple[Stage, ...] = ()  # of a plan file

    def add_stages(self, stages: tuple[Stage, ...]) -> None:
        """Take the stages of a plan, and with them what they have of their own."""
        changes = [each.churn for each in stages if each.churn is not None]
        if changes:
            usual, self.churn = self.churn, max([self.churn, *changes])
            stages = tuple(
                structs.replace(each, churn=usual) if each.churn is None else each
                for each in stages
            )
        self.stages = stages
        own = [("stages", stages), ("mix", any(each.mix for each in stages)), ("churn", changes)]
        self.given |= {name for name, found in own if found}

    @property
    def has_cluster(self) -> bool:
        """Whether a cluster is given."""
        return self.source is not None or self.conf is not None

    def uses(self, name: str) -> bool:
        """Whether a flag is given, and is no switch that is off, nor the whole of a plan."""
        return name in self.given and getattr(self, name.replace("-", "_"), None) not in (
            False,
            WHOLE,
        )


_ANY: Final = (TCP, DOT, DOH)
# Flags of connections, and their transports.
_FOR: Final = {
    **dict.fromkeys(("connections", "queries-per-connection", "pipeline", "idle"), _ANY),
    **dict.fromkeys(("tls-ca", "tls-name", "tls-insecure"), (DOT, DOH)),
    **dict.fromkeys(("doh-path", "doh-method"), (DOH,)),
}
STREAM_FLAGS: Final = ("transport", "retry-tcp", *_FOR)
_CLUSTER: Final = ("source", "conf")
# Flags that have no effect without another one, and that one.
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("slack", "ttl"), ("verify",)),
    "churn": ("api", "churn-api"),
    **dict.fromkeys(("churn-api", "churn-kinds"), ("churn",)),
    "probes": ("verify",),
    **dict.fromkeys(("api", "verify", "mix", "zipf", "pods"), _CLUSTER),
    **dict.fromkeys(
        ("resolvers", "forms", "external", "through", "resolv-options", "node-search"), ("pods",)
    ),
    "nodes": ("through",),
    **dict.fromkeys(("speed", "replay-port", "replay-broken"), ("replay",)),
    "knee-limits": ("find-knee",),
    "part": ("coordinate",),
    "coordinate": ("part",),
}
_OUT: Final = "use only one"
_API: Final = "a Corefile that says which API server; --api serves a simulated cluster instead"
# A flag, those that it excludes, and the sentence with one of these in place of {}.
_EXCLUDED: Final = (
    ("job", ("part", "coordinate"), f"--{{}}: the Job of --job says which portion this is, and where all meet; {_OUT}"),
    ("churn-api", ("api",), f"--churn-api needs --conf, {_API}"),
    ("churn-api", ("part", "job"),
     "--churn-api: each generator would change its own namespace; remove --part and --job"),
    ("api", ("part", "job"), f"--{{}}: each generator would create its own cluster for --api; {_OUT}"),
    ("queries", ("mix", "zipf"), f"--{{}} draws names of a cluster, --queries takes those of a file in order; {_OUT}"),
    ("replay", ("queries",), "--{} sends what is in another file; remove it or --replay"),
    ("replay", ("pods",), "--{} look names up at their own times; remove it or --replay"),
    ("replay", ("mix", "zipf"), "--{} draws names of a cluster; remove it or --replay"),
    ("replay", ("rate",), "--{} is that of the recording; --speed changes it; remove it or --replay"),
    ("replay", ("arrival",), "--{} is that of the recording; remove it or --replay"),
    ("pods", ("queries",), f"--{{}} sends what is in a file, --pods look up names of a cluster; {_OUT}"),
    ("pods", ("edns",),
     f"--{{}} is for all queries, but resolvers have their own ways: --resolv-options edns0 is for glibc; {_OUT}"),
    ("pods", ("timeout",), f"--{{}} is for queries, but resolvers have their own: --resolv-options timeout:2; {_OUT}"),
    ("pods", STREAM_FLAGS, "--{} is for queries, and pods use UDP, and TCP as their resolvers do; remove it"),
    ("through", ("part", "job"), f"--{{}}: each generator would have its own caches of --through; {_OUT}"),
    ("clients", ("pods", "sockets", "connections"), f"--{{}}: each client of --clients has its own; {_OUT}"),
    ("random-labels", ("verify", "pods"), f"--{{}} is about names that there are; {_OUT}"),
    ("do", ("pods", "replay"), f"--{{}}: its queries carry their own flags; {_OUT}"),
    ("tls-insecure", ("tls-ca",), f"--tls-insecure trusts any certificate, --tls-ca only some; {_OUT}"),
    ("find-knee", ("part", "job"), "--find-knee: one generator searches, at its own times; remove --{}"),
    ("replay", ("stages",), "--{} are those of the recording; remove them or --replay"),
    ("stages", ("time",), "--{}: the stages have their own times; remove it, or give --rate too"),
    ("find-knee", ("pods",), "--find-knee finds a rate of queries, and pods make lookups; remove --{}"),
    ("find-knee", ("replay",), "--find-knee finds a rate of queries, and a recording has its own; remove --{}"),
)  # fmt: skip


class LoadSettings(NamedTuple):
    """What the flags mean together; times in seconds.

    `probes` is the maximum per second.  `streams`: over connections, all queries or truncated ones.  `mix` has the
    shares of kinds of names, of those that pods look up if there are any, `mixes` those of each stage.  `knee` are the
    limits of -find-knee.
    """

    flags: LoadFlags
    targets: list[Target]
    schedule: Schedule
    timeout: float
    sockets: int
    wait: float
    clients: list[str]
    probes: float
    limits: list[Limit]
    mix: dict[str, int] | None
    mixes: list[dict[str, int]]
    streams: StreamPlan | None
    replay: Replay | None
    knee: list[Limit]


def read_settings(flags: LoadFlags) -> LoadSettings:
    """Read the flags; raise LoadError, FlagError, or OSError of a recording."""
    port = PORTS[flags.transport] if flags.p is None else flags.p
    targets = read_targets(flags.server or ["127.0.0.1"], port, flags.i_own_this)
    _check_together(flags)
    replay, has_pods = _replay(flags), flags.pods is not None
    if replay is not None:
        schedule = replay.schedule(flags.seed)
    else:
        arrival, burst = flags.arrival or (POISSON if has_pods else EVEN, 1)
        stages = flags.stages or read_stages(flags.rate, flags.time)
        schedule = Schedule(stages, arrival, burst, flags.seed)
    check_schedule(schedule, flags.max_rate, flags.max_time)
    if flags.cpu.isdigit() and len(targets) > 1:
        raise FlagError(f"--cpu {flags.cpu} is for one --server: each has a process that sends")
    check_live(flags.live)
    if not flags.timeout:
        raise FlagError("--timeout 0s loses every query at once; give it a time such as 2s")
    if flags.do:
        flags.edns = flags.edns or DO_SIZE
    clients = _clients(flags, replay)
    streams, limits = _streams(flags, len(clients)), []
    if flags.fail_if:
        limits = read_limits(
            flags.fail_if, verifies=flags.verify, has_pods=has_pods, finds_knee=flags.find_knee
        )
    mix = read_mix(flags.mix, POD_KINDS if has_pods else KINDS) if flags.mix else None
    return LoadSettings(
        flags,
        targets=targets,
        schedule=schedule,
        timeout=_longest_timeout(flags) if has_pods else flags.timeout,
        sockets=len(clients) or flags.sockets or (POD_SOCKETS if has_pods else SOCKETS),
        clients=clients,
        wait=flags.wait,
        probes=_probes(flags, streams, schedule),
        limits=limits,
        mix=mix,
        mixes=_mixes(flags, mix),
        streams=streams,
        replay=replay,
        knee=_knee(flags, schedule) if flags.find_knee else [],
    )


def _check_together(flags: LoadFlags) -> None:
    if not flags.queries and not flags.replay and not flags.has_cluster:
        raise FlagError(
            "nothing to query: add --queries FILE, --replay FILE, or a cluster with --source or --conf"
        )
    for name, needed in _NEEDED.items():
        if flags.uses(name) and not any(map(flags.uses, needed)):
            raise FlagError(f"--{name} needs {' or '.join(f'--{each}' for each in needed)}")
    for name, others, sentence in _EXCLUDED:
        for other in filter(flags.uses, others if flags.uses(name) else ()):
            raise FlagError(sentence.format(other))
    if class_of(flags.through).splits and flags.external:
        raise FlagError(
            "--external: names outside the cluster go from "
            f"{flags.through} to the nameservers of its node, which this load does not have; {_OUT}"
        )
    if class_of(flags.through).captures and flags.nodes:
        raise FlagError(f"--nodes: each pod has {flags.through} for itself; {_OUT}")
    if flags.churn_api and flags.conf is None:
        raise FlagError(f"--churn-api needs --conf, {_API}")


def _clients(flags: LoadFlags, replay: Replay | None) -> list[str]:
    """The source address of each client; none if queries are not those of clients; raise FlagError."""
    found = flags.clients
    if found == ("",) and replay is None:
        raise FlagError("--clients any is for --replay; give addresses such as 127.1.0.0/24")
    count = replay.clients if replay is not None and found else len(found)
    if count > MOST_SOCKETS:
        raise FlagError(f"--clients: {count} clients are more than {MOST_SOCKETS}; remove it")
    return [found[at % len(found)] for at in range(count)]


def _streams(flags: LoadFlags, clients: int) -> StreamPlan | None:
    """The connections; None for UDP only.  Raise FlagError."""
    transport = flags.transport
    if transport != UDP:
        for name, told in (
            ("retry-tcp", f"answers over UDP, and --transport is {transport}; {_OUT}"),
            ("sockets", f"UDP, and --transport is {transport}; --connections says how many there are"),
        ):  # fmt: skip
            if flags.uses(name):
                raise FlagError(f"--{name} is for {told}")
    used = TCP if flags.retry_tcp else transport
    for name, transports in _FOR.items():
        if flags.uses(name) and used not in transports:
            more = ", or --retry-tcp" if transports is _ANY else ""
            raise FlagError(f"--{name} needs --transport {' or '.join(transports)}{more}")
    if used == UDP:
        return None
    return StreamPlan(
        used,
        clients or flags.connections,
        flags.pipeline,
        flags.queries_per_connection,
        STAYS if flags.idle is None else round(flags.idle * 1e9),
        flags.tls_ca,
        flags.tls_name,
        flags.tls_insecure,
        flags.doh_path,
        flags.doh_method,
        flags.retry_tcp,
    )


def _mixes(flags: LoadFlags, mix: dict[str, int] | None) -> list[dict[str, int]]:
    """The shares of kinds of names in each stage; none if they are the same in all; raise FlagError."""
    if not any(each.mix for each in flags.stages):
        return []
    if flags.pods is not None:
        raise FlagError("--mix: pods look up the same names in all stages; give the plan one mix")
    if mix is None and not all(each.mix for each in flags.stages):
        raise FlagError("--mix: some stages have none; give each one, or the plan one for these")
    return [each.mix or mix or {} for each in flags.stages]


def _longest_timeout(flags: LoadFlags) -> float:
    """Seconds after which a query of the pods is lost: the longest wait of their resolvers, and of a forwarder."""
    text = f"options {' '.join(flags.resolv_options)}"
    own = max(MODELS[name].read(text).timeout for name in flags.resolvers)
    return max(own, BETWEEN_TIMEOUT) if flags.through else float(own)


def _replay(flags: LoadFlags) -> Replay | None:
    """What is replayed, None without -replay; raise LoadError or OSError."""
    if not flags.replay:
        return None
    replay = read_replay(
        flags.replay, speed=flags.speed, port=flags.replay_port, longest=flags.time
    )
    if replay.problem:
        if not flags.replay_broken:
            told = f"--replay-broken replays the {replay.queries} queries before"
            raise LoadError(f"{replay.problem}; {told}")
        complain(f"{replay.problem}; what is before is replayed")
    if replay.fastest > flags.max_rate:
        raise LoadError(
            f"--replay: {replay.fastest} queries in a second are above the ceiling of {flags.max_rate}; "
            f"--max-rate {replay.fastest} lifts it, a lower --speed stays below"
        )
    return replay


def _knee(flags: LoadFlags, schedule: Schedule) -> list[Limit]:
    """The limits of a search; raise LoadError or FlagError."""
    (first, *others) = schedule.stages
    if others or first.first != first.last:
        raise FlagError("--find-knee begins at one rate and finds the others; give one as --rate")
    limits = read_knee_limits(flags.knee_limits, verifies=flags.verify)
    if len(flags.server) > 1:
        raise FlagError(
            "--find-knee loads one server, because each has its own knee; give one --server"
        )
    return limits


def _probes(flags: LoadFlags, streams: StreamPlan | None, schedule: Schedule) -> float:
    """Probes per second that follow changes: -probes, or a share of the load's rate."""
    if streams is not None and not streams.for_truncated:
        if flags.uses("probes"):
            raise FlagError("--probes uses UDP, and this load uses connections; remove it")
        return 0.0
    if flags.probes is not None:
        return flags.probes
    return schedule.fastest * PROBES if flags.uses("churn") and flags.verify else 0.0


def check_gateway(url: str) -> str:
    """The address of -push; raise FlagError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise FlagError(f'--push needs an address such as http://127.0.0.1:9091, found "{url}"')
    if "@" in parts.netloc:  # not quoted in the message, because it may contain a password
        raise FlagError("--push: the address of a gateway takes no user name and no password")
    return url
