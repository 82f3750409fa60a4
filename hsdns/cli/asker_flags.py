"""The flags of a command for the client of a lookup: a resolver, its resolv.conf, or a Pod.

Path: cli/resolve.py, cli/explain.py -> here -> explanation/question.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hsdns.cli.flags import Flag, FlagError
from hsdns.explanation.question import LookupQuestion, read_name, read_resolvers
from hsdns.resolver import MODELS, USUAL

RESOLV_CONF: Final = "/etc/resolv.conf"
FLAGS: Final = {
    "resolver": Flag(str, f"{', '.join(MODELS)} (default: {', '.join(USUAL)}, side by side)", "NAME"),
    "search": Flag(str, "search domains in place of those of resolv.conf", "DOMAIN,..."),
    "ndots": Flag(int, "ndots in place of that of resolv.conf", "N", what="number", high=15),
    "resolv-conf": Flag(str, f"resolv.conf to use (default {RESOLV_CONF}); with -from, that of the node", "FILE"),
    "from": Flag(str, "pod whose resolv.conf is used, as the kubelet writes it", "NS/POD"),
    "cluster-dns": Flag(str, "with -from: nameserver the kubelet writes (default: of Service kube-dns)", "ADDRESS"),
}  # fmt: skip


def asks(plain: list[str], flags: Mapping[str, object]) -> LookupQuestion:
    """The lookup described by the words and flags of `explain`; raise FlagError."""
    given = next(flag for flag in FLAGS if flag in flags)
    for other in ("server", "history"):
        if other in flags:
            raise FlagError(
                f"-{other} is for one question, and -{given} for a whole lookup; leave one of them out"
            )
    name, types = name_and_types(plain, "explain")
    return asking(name, types, flags)


def asking(name: str, types: tuple[int, ...], flags: Mapping[str, object]) -> LookupQuestion:
    """The lookup of a name with the flags; raise FlagError."""
    if "cluster-dns" in flags and "from" not in flags:
        raise FlagError("-cluster-dns is for a pod; add -from NS/POD, or leave it out")
    words = {flag: str(flags.get(flag, "")) for flag in FLAGS}
    return LookupQuestion(
        name,
        types,
        resolvers(flags),
        words["from"],
        resolv_conf(flags),
        words["search"],
        words["ndots"],
        words["cluster-dns"],
    )


def are_in(flags: Mapping[str, object]) -> bool:
    """Whether flags describe the client."""
    return not FLAGS.keys().isdisjoint(flags)


def resolvers(flags: Mapping[str, object]) -> tuple[str, ...]:
    """The resolvers to show; raise FlagError."""
    try:
        return read_resolvers(str(flags.get("resolver", "")))
    except ValueError as error:
        raise FlagError(str(error)) from None


def name_and_types(plain: list[str], command: str) -> tuple[str, tuple[int, ...]]:
    """The name and the types that a program looks up; raise FlagError."""
    if len(plain) not in (1, 2):
        raise FlagError(
            f"hsdns {command} needs a name, and may have a type: hsdns {command} NAME [TYPE]"
        )
    try:
        return read_name(*plain)
    except ValueError as error:
        raise FlagError(str(error)) from None


def resolv_conf(flags: Mapping[str, object]) -> str:
    """The text of the resolv.conf to use, "" for a Pod without that of its node; raise FlagError."""
    path = flags.get("resolv-conf")
    if path is None and "from" in flags:
        return ""
    path = str(path or RESOLV_CONF)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as error:
        raise FlagError(
            f"{path} cannot be read: {error.strerror}; give a resolv.conf with -resolv-conf"
        ) from None
