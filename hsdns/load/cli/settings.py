"""The flags of `hsdns load`, and the settings that they define.

Path: load.py -> here.

The flags of `hsdns load` for the transport of queries, and the settings that they define:
Rule: a flag that has no effect with a transport is refused.

The flags of `hsdns load -pods`, and the settings that they define.

The flags of `hsdns load -replay`, and the settings that they define:
Rule: an incomplete file is refused, unless -replay-broken uses its intact part; then standard error says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from hsdns.cli import builtin
from hsdns.cli.flags import NO_CODE, Flag, FlagError, read_time
from hsdns.cli.output import complain
from hsdns.corefile.tree import did_you_mean
from hsdns.load.cli.knee import KneeSettings, knee_settings
from hsdns.load.cli.progress import LINE, check_live
from hsdns.load.cluster.changes import DEFAULT, read_kinds
from hsdns.load.cluster.changes import KINDS as CHANGES
from hsdns.load.cluster.names import KINDS, POD_KINDS, cluster_targets, read_mix
from hsdns.load.errors import LoadError
from hsdns.load.limits import KNEE_LIMITS, Limit, read_limits
from hsdns.load.plan import (
    DOH,
    DOT,
    GET,
    PATH,
    PORTS,
    POST,
    STAYS,
    TCP,
    TRANSPORTS,
    UDP,
    StreamPlan,
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
from hsdns.load.target import (
    HIGHEST_RATE,
    MOST_RATE,
    MOST_SECONDS,
    Target,
    check_schedule,
    read_targets,
)
from hsdns.load.verify.verifier import SLACK
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.resolver import MODELS
from hsdns.wire.name import Name

Flags = Mapping[str, str | int | bool | list[str]]

_DEFAULTS: Final = StreamPlan()


def _counting(text: str, high: int) -> Flag:
    return Flag(int, text, "NUMBER", what="number", low=1, high=high)


STREAM_FLAGS: Final = {
    "transport": Flag(str, "how queries travel: udp (default), tcp, dot or doh", "NAME"),
    "retry-tcp": Flag(bool, "ask again over TCP where an answer over UDP is truncated"),
    "connections": _counting(f"connections at once at most (default {_DEFAULTS.connections})", 100_000),
    "queries-per-connection": _counting("queries on a connection, 1 for a new one each (default: any number)", 10**9),
    "pipeline": _counting(f"queries in flight on a connection (default {_DEFAULTS.pipeline})", 60_000),
    "idle": Flag(str, "close a connection that has been idle for so long (default: it stays open)", "TIME"),
    "tls-ca": Flag(str, "file of the certificates to trust (default: those of this machine)", "FILE"),
    "tls-name": Flag(str, "name that the certificate must have (default: the address)", "NAME"),
    "tls-insecure": Flag(bool, "trust any certificate"),
    "doh-path": Flag(str, f"path of the URL for DNS over HTTPS (default {PATH})", "PATH"),
    "doh-method": Flag(str, "post (default) or get", "METHOD"),
}  # fmt: skip

_ANY: Final = (TCP, DOT, DOH)
# Flags of connections, and their transports.
_FOR: Final = {
    **dict.fromkeys(("connections", "queries-per-connection", "pipeline", "idle"), _ANY),
    **dict.fromkeys(("tls-ca", "tls-name", "tls-insecure"), (DOT, DOH)),
    **dict.fromkeys(("doh-path", "doh-method"), (DOH,)),
}


def default_port(flags: Flags) -> int:
    """The port of the transport; raise FlagError."""
    return PORTS[_transport(flags)]


def read_streams(flags: Flags) -> StreamPlan | None:
    """Read the flags; None for UDP only.  Raise FlagError."""
    transport = _transport(flags)
    falls = bool(flags.get("retry-tcp"))
    if falls and transport != UDP:
        raise FlagError(
            f"-retry-tcp is for answers over UDP, and -transport is {transport}; leave one of them out"
        )
    if transport != UDP and "sockets" in flags:
        raise FlagError(
            f"-sockets is for UDP, and -transport is {transport}; -connections says how many there are"
        )
    used = TCP if falls else transport
    for name, transports in _FOR.items():
        if flags.get(name) and used not in transports:
            needed = " or ".join(transports)
            more = ", or -retry-tcp" if transports is _ANY else ""
            raise FlagError(f"-{name} needs -transport {needed}{more}")
    if transport == UDP and not falls:
        return None
    insecure = bool(flags.get("tls-insecure"))
    if insecure and "tls-ca" in flags:
        raise FlagError(
            "-tls-insecure trusts any certificate, -tls-ca only some; leave one of them out"
        )
    return StreamPlan(
        used,
        int(str(flags.get("connections", _DEFAULTS.connections))),
        int(str(flags.get("pipeline", _DEFAULTS.pipeline))),
        int(str(flags.get("queries-per-connection", 0))),
        _idle(flags),
        str(flags.get("tls-ca", "")),
        str(flags.get("tls-name", "")),
        insecure,
        _path(str(flags.get("doh-path", PATH))),
        _method(str(flags.get("doh-method", POST))),
        falls,
    )


def _transport(flags: Flags) -> str:
    text = str(flags.get("transport", UDP))
    if text not in TRANSPORTS:
        meant = did_you_mean(text, TRANSPORTS) or "; there are udp, tcp, dot and doh"
        raise FlagError(f'-transport: "{text}" is none{meant}')
    return text


def _idle(flags: Flags) -> int:
    seconds = read_time(flags, "idle", None, is_zero=True)
    return STAYS if seconds is None else round(seconds * 1e9)


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


MOST: Final = 100_000  # pods
POD_SOCKETS: Final = 64
_SERVER: Final = "192.0.2.53"  # in the resolv.confs; queries go to -server anyway
_NUMBERS: Final = ("ndots", "timeout", "attempts")
_OPTIONS: Final = (
    "rotate", "single-request", "single-request-reopen", "use-vc", "edns0", "trust-ad", "no-aaaa", "no-reload",
)  # fmt: skip

_SHARES: Final = "NAME=SHARE,..."


def _in_text(shares: Mapping[str, int]) -> str:
    return ",".join(f"{name}={share}" for name, share in shares.items())


POD_FLAGS: Final = {
    "pods": Flag(
        int, "pods that look names up as their resolvers do; -rate is lookups a second", "NUMBER",
        what="number", low=1, high=MOST,
    ),
    "resolvers": Flag(str, f"shares of the pods' resolvers (default {_in_text(RESOLVERS)})", _SHARES),
    "forms": Flag(str, f"shares of the ways to write a name (default {_in_text(FORMS)})", _SHARES),
    "external": Flag(list, "names outside of the cluster that pods look up", "NAME..."),
    "resolv-options": Flag(list, "options of the pods' resolv.conf (default ndots:5)", "OPTION..."),
    "node-search": Flag(list, "search domains of the node, after those of the cluster", "DOMAIN..."),
}  # fmt: skip


class PodSettings(NamedTuple):
    """The settings of pods."""

    pods: int
    resolvers: dict[str, int]
    forms: dict[str, int]
    external: list[str]
    options: dict[str, str]
    searches: list[str]
    mix: dict[str, int] | None


def read_pods(flags: Mapping[str, str | int | bool | list[str]]) -> PodSettings | None:
    """Read the flags; None without -pods.  Raise LoadError or FlagError."""
    if "pods" not in flags:
        for name in POD_FLAGS:
            if name in flags:
                raise FlagError(f"-{name} needs -pods")
        return None
    for name, why in (
        ("queries", "asks what is in a file, -pods look up names of a cluster"),
        ("edns", "is for all queries, but resolvers have their own ways: -resolv-options edns0 is for glibc"),
        ("timeout", "is for queries, but resolvers have their own: -resolv-options timeout:2"),
    ):  # fmt: skip
        if name in flags:
            raise FlagError(f"-{name} {why}; leave one of them out")
    for name in STREAM_FLAGS:
        if name in flags:
            raise FlagError(
                f"-{name} is for queries, and pods use UDP, and TCP as their resolvers do; leave it out"
            )
    external = _names(flags, "external")
    return PodSettings(
        int(str(flags["pods"])),
        _shares(flags, "resolvers", RESOLVERS, MODELS, "resolver"),
        _shares(flags, "forms", FORMS, FORMS, "form of a name"),
        external,
        _read_options(flags.get("resolv-options", [])),
        _names(flags, "node-search"),
        read_mix(str(flags["mix"]), POD_KINDS) if "mix" in flags else None,
    )  # fmt: skip


def _shares(
    flags: Mapping[str, object],
    flag: str,
    default: Mapping[str, int],
    known: Mapping[str, object],
    what: str,
) -> dict[str, int]:
    found = read_shares(str(flags.get(flag, _in_text(default))), known, flag, what, alone=True)
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


def _names(flags: Mapping[str, str | int | bool | list[str]], flag: str) -> list[str]:
    words = flags.get(flag, [])
    assert isinstance(words, list), "the kind of the flag"
    for word in words:
        try:
            Name.from_text(word)
        except ValueError as error:
            raise FlagError(f'-{flag}: "{word}" is no name: {error}') from None
    return words


def _read_options(words: object) -> dict[str, str]:
    """The options of resolv.conf; a library must know each."""
    assert isinstance(words, list), "the kind of the flag"
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


REPLAY_PORT: Final = 53
FASTEST: Final = 1_000_000.0
REPLAY_FLAGS: Final = {
    "replay": Flag(str, "recording, or pcap or pcapng file, whose queries are asked at their times", "FILE"),
    "speed": Flag(str, "how many times as fast as they were recorded (default 1)", "NUMBER"),
    "replay-port": Flag(int, f"port to which the queries of a capture went (default {REPLAY_PORT})", "PORT", low=1),
    "replay-broken": Flag(bool, "replay a broken file as far as it is whole"),
}  # fmt: skip
_OTHERS: Final = {
    "queries": "asks what is in another file",
    "pods": "look names up at times of their own",
    "mix": "draws names of a cluster",
    "zipf": "draws names of a cluster",
    "rate": "is that of the recording; -speed changes it",
    "arrival": "is that of the recording",
}


class ReplaySettings(NamedTuple):
    """What is replayed, and its description in the report."""

    replay: Replay
    what: str

    def schedule(self, seed: int) -> Schedule:
        """A schedule with its length and number of queries; the times themselves are those of the recording."""
        rate = self.replay.queries / self.replay.seconds
        return Schedule((Stage(self.replay.seconds, rate, rate),), RECORDED, 1, seed)


def read_replay_flags(
    flags: Mapping[str, str | int | bool | list[str]], longest: float | None
) -> ReplaySettings | None:
    """Read the flags and the file; None without -replay.  `longest` is -time, in seconds.

    Raise LoadError, FlagError or OSError.
    """
    if "replay" not in flags:
        for name in REPLAY_FLAGS:
            if name in flags:
                raise FlagError(f"-{name} needs -replay")
        return None
    for name, why in _OTHERS.items():
        if name in flags:
            raise FlagError(f"-{name} {why}; leave it or -replay out")
    text = str(flags.get("speed", "1"))
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 1 / FASTEST <= speed <= FASTEST:
        raise FlagError(f'-speed needs a number such as 2 or 0.5, found "{text}"')
    path = str(flags["replay"])
    port = int(str(flags.get("replay-port", REPLAY_PORT)))
    replay = read_replay(path, speed=speed, port=port, longest=longest)
    if replay.problem:
        if not flags.get("replay-broken"):
            told = f"-replay-broken replays the {replay.queries} queries before"
            raise LoadError(f"{replay.problem}; {told}")
        complain(f"{replay.problem}; what is before is replayed")
    most = float(str(flags.get("max-rate", MOST_RATE)))
    if replay.fastest > most:
        raise LoadError(
            f"-replay: {replay.fastest} queries in a second are above the ceiling of {most:.10g}; "
            f"-max-rate {replay.fastest} lifts it, a lower -speed stays below"
        )
    return ReplaySettings(replay, _in_words(path, replay, speed))


def _in_words(path: str, replay: Replay, speed: float) -> str:
    told = f"{replay.queries} queries of {path}, {len(replay.questions)} different ones, from {replay.clients} clients"
    told += f", at speed {speed:g}"
    if replay.left_out:
        told += "; left out: " + ", ".join(
            f"{why} {count}" for why, count in replay.left_out.items()
        )
    return told


PORT: Final = 53
RATE: Final = "1000"
TIMEOUT: Final = 2.0  # seconds
SOCKETS: Final = 4
MOST_SOCKETS: Final = 20_000  # of the 28,000 ports that Linux gives by default
PROBES: Final = 0.1  # of the queries

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
_NUMBER: Final = "number"

FLAGS: Final = {
    "server": Flag(list, _SERVERS, "[NAME=]ADDRESS[:PORT]...", adds=True),
    "p": Flag(int, f"port of servers that are given none (default {PORT}; dot 853, doh 443)", "PORT", low=1),
    "rate": Flag(str, f"queries a second: {_RATES} (default {RATE})", "RATE"),
    "time": Flag(str, "how long (default 10s)", "TIME"),
    "arrival": Flag(str, "how queries arrive: even (default), poisson (default of -pods), or burst=COUNT", "WAY"),
    "queries": Flag(str, "file with NAME TYPE on each line, as dnsperf reads it (- is standard input)", "FILE"),
    "source": builtin.SOURCE,
    "conf": Flag(str, "Corefile whose kubernetes block says the cluster, as the server's does", "FILE"),
    "mix": Flag(str, f"shares of the kinds of names of the cluster (default {_MIX})", "KIND=SHARE,..."),
    "zipf": Flag(str, "exponent of Zipf's law, by which names of a kind are drawn (default 0: all alike)", "NUMBER"),
    **POD_FLAGS,
    **REPLAY_FLAGS,
    "seed": Flag(int, "seed of all that is drawn (default 1)", "NUMBER", what=_NUMBER, high=999_999_999),
    "edns": Flag(int, "payload size of an EDNS record (default: without one)", "OCTETS", what=_NUMBER, low=512),
    "timeout": Flag(str, "when a query is lost (default 2s)", "TIME"),
    "sockets": Flag(
        int, f"UDP ports that ask (default {SOCKETS}; with -pods {POD_SOCKETS})", "NUMBER",
        what=_NUMBER, low=1, high=MOST_SOCKETS,
    ),
    **STREAM_FLAGS,
    "verify": Flag(bool, "judge each answer by a watch of the same cluster"),
    "slack": Flag(str, "how far apart the watches of server and generator may be (default 100ms)", "TIME"),
    "api": Flag(str, _API, "HOST:PORT"),
    "churn": Flag(str, "changes a second of the cluster of -api, or of -churn-api", "RATE"),
    "churn-api": Flag(bool, _CHURN_API),
    "churn-kinds": Flag(str, _KINDS, "KIND=SHARE,..."),
    "probes": Flag(str, _PROBES, "RATE"),
    "wait": Flag(str, "how long to wait for the server to answer (default 0s: three queries)", "TIME"),
    "fail-if": Flag(str, "limits that make the exit status 1: p99>5ms,stale>0,loss>0.1%", "LIMIT,..."),
    "find-knee": Flag(bool, "find the highest rate at which limits hold, from -rate on; -time is the shortest step"),
    "knee-limits": Flag(str, f"the limits of -find-knee (default {KNEE_LIMITS})", "LIMIT,..."),
    "part": Flag(str, "the portion of the plan that this generator has, such as 0/4, the first of four", "INDEX/COUNT"),
    "start-at": Flag(str, "when the load begins, such as 2026-01-31T12:00:00Z, or +30s (default: at once)", "TIME"),
    "job": Flag(str, "the Indexed Job of which this is a pod: it says the portion, and gathers the reports", "NAME"),
    "live": Flag(str, "what is shown meanwhile: line (default), screen, or none", "HOW"),
    "prometheus": Flag(str, "write metrics to a file, now and then and at the end", "FILE"),
    "push": Flag(str, "send metrics to a Pushgateway, now and then and at the end", "URL"),
    "junit": Flag(str, "write the limits as test cases in JUnit's form to a file", "FILE"),
    "github": Flag(bool, "append to the summary of a step of GitHub Actions, as is done where there is one"),
    "json": Flag(str, "write the report as JSON to a file", "FILE"),
    "html": Flag(str, "write the report as a page to a file", "FILE"),
    "o": Flag(str, "format of standard output: text (default) or json", "FORMAT"),
    "i-own-this": Flag(list, "addresses of your own that are neither loopback nor private", "ADDRESS..."),
    "max-rate": Flag(
        int, f"ceiling of -rate (default {MOST_RATE:g})", "RATE", what=_NUMBER, low=1, high=HIGHEST_RATE
    ),
    "max-time": Flag(str, f"ceiling of -time (default {MOST_SECONDS / 3600:g}h)", "TIME"),
    "keep-going": Flag(bool, "go on though every query fails"),
    **NO_CODE,
    "h": Flag(bool, "show this help"),
    "help": Flag(bool, "show this help", alias_of="h"),
}  # fmt: skip


class LoadSettings(NamedTuple):
    """The settings from the flags, except the questions; times in seconds.  `api` is host and port, if given."""

    targets: list[Target]
    schedule: Schedule
    seed: int
    edns: int
    timeout: float
    sockets: int
    verifies: bool
    slack: float
    api: tuple[str, int] | None
    churn: float
    churn_api: bool
    churn_kinds: dict[str, int]
    probes: float
    wait: float
    limits: list[Limit]
    mix: dict[str, int] | None
    zipf: float
    queries: str
    keeps_going: bool
    live: str
    portion: Portion
    start_at: str
    job: str
    streams: StreamPlan | None = None  # over connections, all queries or truncated ones
    pods: PodSettings | None = None
    replay: ReplaySettings | None = None
    knee: KneeSettings | None = None


def read_settings(flags: Flags) -> LoadSettings:
    """Read the flags; raise LoadError or FlagError."""
    servers, owned = flags.get("server", ["127.0.0.1"]), flags.get("i-own-this", [])
    assert isinstance(servers, list), "the kind of the flag"
    assert isinstance(owned, list), "the kind of the flag"
    targets = read_targets(servers, int(str(flags.get("p", default_port(flags)))), owned)
    _check_together(flags)
    length = read_time(flags, "time", None, is_zero=True)
    replay = read_replay_flags(flags, length)
    pods = read_pods(flags)
    seed = int(str(flags.get("seed", 1)))
    if replay is not None:
        schedule = replay.schedule(seed)
    else:
        arrival, burst = read_arrival(str(flags.get("arrival", EVEN if pods is None else POISSON)))
        stages = read_stages(str(flags.get("rate", RATE)), length)
        schedule = Schedule(stages, arrival, burst, seed)
    longest = read_time(flags, "max-time", MOST_SECONDS, is_zero=True)
    check_schedule(schedule, float(str(flags.get("max-rate", MOST_RATE))), longest)
    _check_parts(flags)
    verifies = bool(flags.get("verify"))
    timeout, slack, wait = (
        read_time(flags, name, default, is_zero=True)
        for name, default in (("timeout", TIMEOUT), ("slack", SLACK), ("wait", 0.0))
    )
    if not timeout:
        raise FlagError("-timeout 0s: every query would be lost at once; give it a time such as 2s")
    return LoadSettings(
        targets,
        schedule,
        seed,
        int(str(flags.get("edns", 0))),
        timeout if pods is None else longest_timeout(pods),
        int(str(flags.get("sockets", SOCKETS if pods is None else POD_SOCKETS))),
        verifies,
        slack,
        _host_and_port(str(flags["api"])) if "api" in flags else None,
        _number(flags, "churn", 0.0, 100_000.0),
        bool(flags.get("churn-api")),
        read_kinds(str(flags["churn-kinds"])) if "churn-kinds" in flags else dict(DEFAULT),
        _probes(flags, schedule),
        wait,
        _limits(flags, verifies),
        read_mix(str(flags["mix"])) if "mix" in flags and pods is None else None,
        _number(flags, "zipf", 0.0, 10.0),
        str(flags.get("queries", "")),
        bool(flags.get("keep-going")),
        check_live(str(flags.get("live", LINE))),
        read_portion(str(flags["part"])) if "part" in flags else Portion(),
        str(flags.get("start-at", "")),
        str(flags.get("job", "")),
        read_streams(flags),
        pods,
        replay,
        _knee(flags, targets, schedule.stages, length),
    )


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


def _check_together(flags: Flags) -> None:
    has_cluster = "source" in flags or "conf" in flags
    if "queries" not in flags and "replay" not in flags and not has_cluster:
        raise FlagError(
            "what is to be asked? add -queries FILE, -replay FILE, or a cluster whose names are asked: -source or -conf"
        )
    for name, needed in _NEEDED:
        if flags.get(name) and not any(flags.get(each) for each in needed):
            raise FlagError(f"-{name} needs {' or '.join(f'-{each}' for each in needed)}")
    for name in ("mix", "zipf"):
        if name in flags and "queries" in flags:
            raise FlagError(
                f"-{name} draws names of a cluster, -queries asks those of a file in order; "
                "leave one of them out"
            )


def _limits(flags: Flags, verifies: bool) -> list[Limit]:
    if "fail-if" not in flags:
        return []
    has_pods, finds_knee = "pods" in flags, bool(flags.get("find-knee"))
    text = str(flags["fail-if"])
    return read_limits(text, verifies=verifies, has_pods=has_pods, finds_knee=finds_knee)


def _knee(
    flags: Flags, targets: Sequence[Target], stages: Sequence[Stage], length: float | None
) -> KneeSettings | None:
    ceiling = float(str(flags.get("max-rate", MOST_RATE)))
    found = knee_settings(flags, stages, ceiling, length, verifies=bool(flags.get("verify")))
    if found is not None and len(targets) > 1:
        raise FlagError(
            "-find-knee loads one server, for each has a knee of its own; give one -server"
        )
    return found


def _probes(flags: Flags, schedule: Schedule) -> float:
    """Probes per second that follow changes: -probes, or a share of the load's rate."""
    streams = read_streams(flags)
    if streams is not None and not streams.for_truncated:
        if flags.get("probes"):
            raise FlagError(
                "-probes asks over UDP, and this load is over connections; leave it out"
            )
        return 0.0
    if "probes" in flags:
        return _number(flags, "probes", 0.0, 100_000.0)
    return schedule.fastest * PROBES if flags.get("churn") and flags.get("verify") else 0.0


def _check_parts(flags: Flags) -> None:
    """Raise FlagError for flags that several generators cannot use."""
    if "part" in flags and "job" in flags:
        raise FlagError("-part: the Job of -job says which portion this is; leave one of them out")
    if "churn-api" in flags and ("api" in flags or "conf" not in flags):
        raise FlagError(
            "-churn-api needs -conf, a Corefile that says which API server; -api serves a simulated cluster instead"
        )
    if "churn-api" in flags and ("part" in flags or "job" in flags):
        raise FlagError(
            "-churn-api: each generator would change a namespace of its own; leave -part and -job out"
        )
    for name in ("part", "job"):
        if name in flags and "api" in flags:
            raise FlagError(
                f"-{name}: each generator would make up a cluster of its own for -api; leave one of them out"
            )


def _number(flags: Flags, name: str, low: float, high: float) -> float:
    text = str(flags.get(name, low))
    try:
        number = float(text)
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
