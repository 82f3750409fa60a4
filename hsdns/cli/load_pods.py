"""The flags of `hsdns load -pods`, and the settings that they define.

Path: cli/load_flags.py -> here -> load/pods.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from hsdns.cli.flags import Flag, FlagError
from hsdns.cli.load_streams import FLAGS as STREAM_FLAGS
from hsdns.load.cluster_names import POD_KINDS, cluster_targets, read_mix
from hsdns.load.errors import LoadError
from hsdns.load.pods import FORMS, RESOLVERS, PodPlan, check_lengths, resolv_confs
from hsdns.load.questions import Questions
from hsdns.load.shares import read_shares
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.resolver import MODELS
from hsdns.wire.name import Name

MOST: Final = 100_000  # pods
SOCKETS: Final = 64
_SERVER: Final = "192.0.2.53"  # in the resolv.confs; queries go to -server anyway
_NUMBERS: Final = ("ndots", "timeout", "attempts")
_OPTIONS: Final = (
    "rotate", "single-request", "single-request-reopen", "use-vc", "edns0", "trust-ad", "no-aaaa", "no-reload",
)  # fmt: skip

_SHARES: Final = "NAME=SHARE,..."


def _in_text(shares: Mapping[str, int]) -> str:
    return ",".join(f"{name}={share}" for name, share in shares.items())


FLAGS: Final = {
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
        for name in FLAGS:
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
