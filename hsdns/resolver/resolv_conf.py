"""resolv.conf as stub resolvers read it.

Path: a file, or resolver/resolv_conf.py -> here -> a model.
Source: resolv.conf(5); the readers of glibc, musl, Go and c-ares differ in caps, in line lengths and in the options
        that they know.

The resolv.conf of a pod, as the kubelet writes it:
Source: Kubernetes pkg/kubelet/network/dns/dns.go; the limits are those of core validation: three nameservers, 32 search
        domains, 2,048 characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple


class ResolvConf(NamedTuple):
    """One library's view of the file; `timeout` in seconds.  `remarks` are sentences on settings that it ignores."""

    nameservers: tuple[str, ...]
    search: tuple[str, ...]
    ndots: int
    timeout: int
    attempts: int
    flags: frozenset[str]
    remarks: tuple[str, ...]

    @property
    def trust_ad(self) -> bool:
        """Whether queries have the AD bit."""
        return "trust-ad" in self.flags


class Reader(NamedTuple):
    """The differences between libraries: caps, known options, the longest line without its end, and the search list."""

    library: str
    flags: Mapping[str, str]  # each option with its synonym
    timeout: int = 5  # seconds
    attempts: int = 2
    most_servers: int = 3
    most_timeout: int = 1 << 30
    most_attempts: int = 1 << 30
    line_len: int = 1 << 30
    searches: bool = True  # whether it reads search domains
    numbers: tuple[str, ...] = ("ndots", "timeout", "attempts")  # options that it reads
    options_lines: int = 1 << 30  # the most that it reads


def read_resolv_conf(text: str, reader: Reader) -> ResolvConf:
    """Read the text of a resolv.conf."""
    numbers = {"ndots": 1, "timeout": reader.timeout, "attempts": reader.attempts}
    most = {"ndots": 15, "timeout": reader.most_timeout, "attempts": reader.most_attempts}
    servers: list[str] = []
    search: tuple[str, ...] = ()
    flags: set[str] = set()
    remarks: dict[str, None] = {}
    options_lines = 0
    for line in text.splitlines():
        words = line.split()
        if not words or words[0][0] in "#;":
            continue
        if len(line) > reader.line_len:
            remarks[
                f"{reader.library} ignores the line {words[0]}: it has {len(line)} octets, "
                f"more than {reader.line_len}"
            ] = None
        elif words[0] == "nameserver" and len(words) > 1:
            servers.append(words[1])
        elif words[0] in ("search", "domain") and reader.searches:
            search = tuple(word.strip(".") for word in words[1:])
        elif words[0] == "options":
            options_lines += 1
            if options_lines > reader.options_lines:
                remarks[f"{reader.library} ignores the second line of options"] = None
                continue
            for option in words[1:]:
                name, colon, value = option.partition(":")
                if colon and name in reader.numbers and value.isascii() and value.isdigit():
                    numbers[name] = min(int(value), most[name])
                elif name in reader.flags and not colon:
                    flags.add(reader.flags[name])
                elif name == "ndots" and not reader.searches:
                    pass  # it is about the search list
                else:
                    remarks[f"{reader.library} ignores the option {option}"] = None
    if len(servers) > reader.most_servers:
        remarks[
            f"{reader.library} uses the first {reader.most_servers} of {len(servers)} nameservers"
        ] = None
    return ResolvConf(
        tuple(servers[: reader.most_servers]) or ("127.0.0.1",),
        search,
        numbers["ndots"],
        max(1, numbers["timeout"]),
        max(1, numbers["attempts"]),
        frozenset(flags),
        tuple(remarks),
    )


def with_ndots(text: str, ndots: int | str) -> str:
    """A resolv.conf with another ndots, in its first line of options: some libraries read no other."""
    lines, added = list[str](), f" ndots:{ndots}"
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["options"]:
            line = " ".join(each for each in words if not each.startswith("ndots:")) + added
            added = ""
        lines.append(line)
    return "\n".join([*lines, f"options{added}"] if added else lines) + "\n"


def switches(*names: str) -> dict[str, str]:
    """Options without synonyms."""
    return {name: name for name in names}


MOST_SERVERS: Final = 3
MOST_SEARCHES: Final = 32
MOST_SEARCH_LEN: Final = 2048  # characters, with the spaces between
POLICIES: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")


class PodDns(NamedTuple):
    """The DNS settings of a pod's spec; `options` without a value have an empty one."""

    namespace: str
    policy: str = "ClusterFirst"
    on_host_network: bool = False
    nameservers: Sequence[str] = ()
    searches: Sequence[str] = ()
    options: Mapping[str, str] = {}

    @property
    def asks_cluster(self) -> bool:
        """Whether its policy makes the cluster's DNS its nameserver."""
        is_plain = self.policy == "ClusterFirst" and not self.on_host_network
        return is_plain or self.policy == "ClusterFirstWithHostNet"


def pod_resolv_conf(pod: PodDns, cluster_dns: str, domain: str, node: str) -> str:
    """The text; `domain` is the cluster's, and `node` the text of the node's resolv.conf, which `Default` uses."""
    servers: list[str] = []
    options: dict[str, str] = {}
    if pod.policy != "None":
        servers, _ = _of_node(node)
    if pod.asks_cluster:
        servers = [cluster_dns]
        options = {"ndots": "5"}
    servers = list(dict.fromkeys([*servers, *pod.nameservers]))[:MOST_SERVERS]
    searches = search_list(pod, domain, node)[:MOST_SEARCHES]
    while len(" ".join(searches)) > MOST_SEARCH_LEN:
        searches.pop()
    options |= pod.options
    lines = [f"search {' '.join(searches)}"] if searches else []
    lines += [f"nameserver {server}" for server in servers]
    words = [f"{name}:{value}" if value else name for name, value in options.items()]
    lines += [f"options {' '.join(words)}"] if words else []
    return "\n".join(lines) + "\n"


def search_list(pod: PodDns, domain: str, node: str) -> list[str]:
    """All search domains, including those beyond the kubelet's limits."""
    searches = _of_node(node)[1] if pod.policy != "None" else []
    if pod.asks_cluster:
        searches = [f"{pod.namespace}.svc.{domain}", f"svc.{domain}", domain, *searches]
    return list(dict.fromkeys([*searches, *pod.searches]))


def _of_node(text: str) -> tuple[list[str], list[str]]:
    """The nameservers and search domains of the node; the kubelet leaves its options out."""
    servers: list[str] = []
    searches: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["nameserver"]:
            servers += words[1:2]
        elif words[:1] == ["search"]:
            searches = [word.rstrip(".") or "." for word in words[1:]]
    return servers, searches
