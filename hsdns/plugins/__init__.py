"""The plugins, a module or package for each directive, and their order in the chain."""

from typing import Final

# As in CoreDNS 1.14.7 (plugin.cfg), the Corefile does not change the order: a query passes the plugins from first to
# last, and its reply from last to first.  Setup and start run in this order, too.
ORDER: Final[tuple[str, ...]] = (
    "root",  # sets the directory of all files below
    "metadata",  # runs before the chain, for all its plugins
    "https",  # this and the next three are read before sockets are opened
    "timeouts",
    "multisocket",
    "reload",  # starts first: a change of the Corefile is noticed even if a later plugin never starts up
    "nsid",  # before all plugins that answer
    "bufsize",  # before log and all plugins that answer: they see the lowered size
    "bind",  # read before sockets are opened
    "debug",
    "ready",  # with health and prometheus before kubernetes: their ports are open while it waits for the cluster
    "health",
    "pprof",
    "control",  # like health, open while kubernetes waits for the cluster
    "dashboard",  # like control
    "shed",  # not a handler; placed as in CoreDNS
    "prometheus",  # before all plugins that answer, so that all replies are counted
    "errors",  # sees the errors of all later plugins; prometheus counts them
    "log",
    "dnstap",  # after log, before all plugins that answer
    "cancel",  # first in CoreDNS; here it answers, and its replies are logged and counted
    "fault",  # after plugins that count and log replies, before those that answer: none stores a changed reply
    "local",  # before all sources: queries for names of this host reach none of them
    "dns64",  # before loadbalance and cache: both see the client's query and the one for A records
    "any",  # before all sources, like chaos
    "chaos",
    "loadbalance",  # before cache: a cached reply is shuffled each time
    "tsig",  # before rewrite and all sources: a query is verified as received
    "rewrite",  # before acl, cache and all sources: they see the rewritten query
    "autopath",  # before acl and cache: both see each name of the search path
    "acl",  # before cache: also applies to cached replies
    "cache",  # before all sources
    "header",  # after cache: cached replies have the flags set by its rules
    "dnssec",  # after rewrite and cache: what is signed is what the cache keeps
    "tls",  # not a handler; placed as in CoreDNS
    "minimal",  # directly before all sources
    "python",  # after cache, before all sources: it may answer first, change a reply or pass on
    "template",  # before hosts and kubernetes: it answers first
    "transfer",  # before the plugins whose zones it transfers
    "hosts",  # before kubernetes: it answers first
    "k8s_external",  # directly before kubernetes: it answers first if both have a zone
    "kubernetes",
    "file",  # after kubernetes, which answers first if both have a zone
    "auto",  # zones from a directory
    "secondary",  # zones from other servers
    "loop",  # directly before forward, whose loops it detects
    "forward",  # last resort
    "erratic",  # answers all queries, like whoami
    "whoami",
    "sign",  # not a handler; placed as in CoreDNS
    "view",  # evaluated before the chain, so its position does not matter
)

# Directives of CoreDNS 1.14.7 that hsdns reports as unsupported instead of unknown.
NOT_YET: Final[frozenset[str]] = frozenset(
    "geoip proxyproto quic grpc_server https3 trace "
    "route53 "
    "azure clouddns etcd grpc on nomad".split()
)
