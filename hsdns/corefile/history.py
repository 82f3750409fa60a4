"""What CoreDNS once had, and what only other builds have: the directives and properties that people still write.

Path: parser.py and properties.py, for a word that is unknown -> here -> their message; rules/corefile_text.py.
Rule 1: what the words were is told before a similar word is proposed.
Source: the release notes of CoreDNS (notes/*.md) and the history of plugin.cfg and of each plugin's setup.go; the
external plugins of coredns.io/explugins, and of builds for OpenShift, vCluster, k8gb and others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hsdns.corefile.tree import did_you_mean

_TRANSFER: Final = ("1.8.0", "write the plugin transfer beside it, with its addresses after to")
_NO_UPSTREAM: Final = "leave it out: names outside are resolved by the server itself"
# Directives: the version that no longer has it, and what to write.
_DIRECTIVES: Final = {
    "federation": ("1.7.0", "leave it out: Kubernetes has no federation of that kind any more"),
    "httpproxy": ("1.0.0", "write forward"),
    "proxy": ("1.5.0", "write forward"),
    "reverse": ("1.2.0", "write template"),
    "shutdown": ("1.1.0", "leave it out"),
    "startup": ("1.1.0", "leave it out"),
}
# Properties by plugin, in the same way.
_PROPERTIES: Final = {
    "auto": {"no_reload": ("1.5.0", "write reload 0"), "transfer": _TRANSFER},
    "file": {"no_reload": ("1.5.0", "write reload 0"), "transfer": _TRANSFER},
    "header": {
        "clear": ("1.12.4", "write response clear"),
        "set": ("1.12.4", "write response set"),
    },
    "kubernetes": {
        "autopath": ("1.0.0", "write the plugin autopath @kubernetes beside it"),
        "cidrs": ("1.0.0", "write the networks among the zones of kubernetes"),
        "federation": ("1.0.0", "leave it out"),
        "resyncperiod": ("1.7.0", "leave it out: changes are watched"),
        "transfer": _TRANSFER,
        "upstream": ("1.7.0", _NO_UPSTREAM),
    },
    "prometheus": {"address": ("1.0.0", "write the address on the line of prometheus")},
    "secondary": {"upstream": ("1.8.0", _NO_UPSTREAM)},
}
# Properties of the plugin proxy, which people keep in forward.
_OF_PROXY: Final = {
    "fail_timeout": "leave it out: health_check says how often an upstream is asked",
    "protocol": 'write force_tcp or prefer_udp, or "tls://ADDRESS" as the upstream',
    "spray": "leave it out: without a healthy upstream any is asked",
    "without": "leave it out",
}
# Plugins that became a part of another one.
_MOVED: Final = {
    "multicluster": "is a property of kubernetes since CoreDNS 1.12.2: write its zone among those of kubernetes, and "
    "multicluster with this zone in the braces of kubernetes",
}
EXTERNAL: Final = frozenset(
    "acme ads alias alternate amazondns autoipv6ptr blocker blocklist bogus clickhouse consul consul_catalog demo "
    "dnsimple dnsredir docker dockerdiscovery dso dump dynapi ebpf ens enum example externaldns fallback fanout "
    "filter finalize firewall flatten gathersrv git gravwell gslb idetcd ipecho ipin ipset json k8s_cache k8s_crd "
    "k8s_dns_chaos k8s_event k8s_gateway keydb kubeforward kubenodes kubernetai lighthouse mdns meship meshname "
    "mysql mysql_extend nacos netbox netboxdns nodecache ocp_dnsnameresolver omada opa pdsql pocketbase policy "
    "rebind records recursor redis redis_cache redisc responsefilter rpz rrl ruledforward sinkhole split "
    "tailscale themis tlsplus umbrella unbound unifi vcluster warnlist wasm wgsd".split()
)


def about_directive(word: str) -> str:
    """What is known of a directive that CoreDNS does not have, "" if nothing is."""
    if word in _DIRECTIVES:
        version, instead = _DIRECTIVES[word]
        return f"{word} was removed in CoreDNS {version}; {instead}"
    if word in _MOVED:
        return f"{word} {_MOVED[word]}"
    return f"{word} is an external plugin; not in CoreDNS or hsdns" if word in EXTERNAL else ""


def about_property(word: str, plugin: str, known: Iterable[str]) -> str:
    """What is known of a property that a plugin does not have; `known` are those that it has."""
    removed: Mapping[str, tuple[str, str]] = _PROPERTIES.get(plugin, {})
    if word in removed:
        version, instead = removed[word]
        return f"{word} of {plugin} was removed in CoreDNS {version}; {instead}"
    if plugin == "forward" and word in _OF_PROXY:
        return (
            f"{word} was a property of proxy, and forward has none of that name; {_OF_PROXY[word]}"
        )
    return f'unknown property "{word}" of {plugin}{did_you_mean(word, known)}'
