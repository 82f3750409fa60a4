"""The plugins, one file for each directive, and the order in which they run."""

from typing import Final

# The order is CoreDNS 1.14.7's (plugin.cfg), not the file's: a plugin feels what stands below it here and does not
# care what stands above.  Setup and start run in this order too.
ORDER: Final[tuple[str, ...]] = (
    "reload",  # first, so that a change of everything below is noticed even if that never starts
    "bind",  # says where to listen before anything asks
    "debug",
    "ready",  # with health and prometheus before kubernetes: their ports are open while it waits for the cluster
    "health",
    "prometheus",  # above everything that answers, so that everything is counted
    "errors",  # sees the errors of all below, is counted above
    "log",
    "loadbalance",  # above cache: a cached answer is shuffled each time
    "cache",  # above all sources of answers
    "hosts",  # wins over kubernetes
    "kubernetes",
    "loop",  # right before forward, whose loops it looks for
    "forward",  # last resort
    "whoami",  # answers everything, so nothing can stand behind it
)

# Directives of CoreDNS 1.14.7 that hsdns refuses by name, so that nobody takes one for a typing error.
NOT_YET: Final[frozenset[str]] = frozenset(
    "root metadata geoip cancel proxyproto quic grpc_server https https3 timeouts multisocket nsid bufsize trace pprof "
    "shed dnstap local dns64 any chaos tsig rewrite autopath acl header dnssec tls minimal template transfer route53 "
    "azure clouddns k8s_external file auto secondary etcd grpc erratic on sign view nomad".split()
)
