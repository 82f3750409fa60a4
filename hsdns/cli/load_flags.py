"""The flags of `hsdns load`, and the settings that they define.

Path: cli/load.py -> here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from hsdns.cli import builtin
from hsdns.cli.flags import NO_CODE, Flag, FlagError, read_time
from hsdns.cli.load_knee import KneeSettings, knee_settings
from hsdns.cli.load_live import LINE, check_live
from hsdns.cli.load_pods import FLAGS as POD_FLAGS
from hsdns.cli.load_pods import SOCKETS as POD_SOCKETS
from hsdns.cli.load_pods import PodSettings, longest_timeout, read_pods
from hsdns.cli.load_replay import FLAGS as REPLAY_FLAGS
from hsdns.cli.load_replay import ReplaySettings, read_replay_flags
from hsdns.cli.load_streams import FLAGS as STREAM_FLAGS
from hsdns.cli.load_streams import default_port, read_streams
from hsdns.load.changes import DEFAULT, read_kinds
from hsdns.load.changes import KINDS as CHANGES
from hsdns.load.cluster_names import KINDS, read_mix
from hsdns.load.portion import Portion, read_portion
from hsdns.load.safety import HIGHEST_RATE, MOST_RATE, MOST_SECONDS, check_schedule
from hsdns.load.schedule import EVEN, POISSON, Schedule, Stage, read_arrival, read_stages
from hsdns.load.stream_plan import StreamPlan
from hsdns.load.target import Target, read_targets
from hsdns.load.thresholds import KNEE_LIMITS, Limit, read_limits
from hsdns.load.verifier import SLACK

PORT: Final = 53
RATE: Final = "1000"
TIMEOUT: Final = 2.0  # seconds
SOCKETS: Final = 4
MOST_SOCKETS: Final = 20_000  # of the 28,000 ports that Linux gives by default
PROBES: Final = 0.1  # of the queries
Flags = Mapping[str, str | int | bool | list[str]]

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
