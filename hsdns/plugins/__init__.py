"""The plugins, one file for each directive, and the order in which they run."""

from typing import Final

# The order is CoreDNS 1.14.7's (plugin.cfg), not the file's: a plugin feels what stands below it here and does not
# care what stands above.  Setup and start run in this order too.
ORDER: Final[tuple[str, ...]] = (
    "root",  # names the folder of all files below
    "metadata",  # collects before the chain is entered, for everything in it
    "https",  # this and the next three are read before sockets are opened
    "timeouts",
    "multisocket",
    "reload",  # first, so that a change of everything below is noticed even if that never starts
    "nsid",  # above all that writes replies
    "bufsize",  # above log and all that answers: they see the lowered size
    "bind",  # says where to listen before anything asks
    "debug",
    "ready",  # with health and prometheus before kubernetes: their ports are open while it waits for the cluster
    "health",
    "pprof",
    "prometheus",  # above everything that answers, so that everything is counted
    "errors",  # sees the errors of all below, is counted above
    "log",
    "cancel",  # not CoreDNS's place, the first: here it answers, and what it answers is to be logged and counted
    "local",  # above all sources: nobody else is asked for names of this host
    "dns64",  # above loadbalance and cache: both see what clients ask and what is asked for them
    "any",  # above all that answers, and so is chaos
    "chaos",
    "loadbalance",  # above cache: a cached answer is shuffled each time
    "tsig",  # above rewrite and all sources: a query is verified as it came
    "rewrite",  # above acl, cache and all sources: they see the changed query
    "autopath",  # above acl and cache: each name of a walk is asked of both
    "acl",  # above cache: what was answered to one client is not given to another
    "cache",  # above all sources of answers
    "header",  # below cache: a cached reply has the flags that were set
    "tls",  # no handler; it stands where CoreDNS has it
    "minimal",  # right above all sources
    "python",  # below cache, above all that answers: it may answer first, change an answer or pass on
    "template",  # above hosts and kubernetes: what it answers is not looked up
    "transfer",  # above the zones that it gives away
    "hosts",  # wins over kubernetes
    "k8s_external",  # right above kubernetes, so that a zone of both is this one's
    "kubernetes",
    "file",  # below kubernetes, which wins where both have a zone
    "auto",  # zones of a folder
    "secondary",  # zones of other servers
    "loop",  # right before forward, whose loops it looks for
    "forward",  # last resort
    "erratic",  # answers everything, and so does whoami
    "whoami",  # answers everything, so nothing can stand behind it
    "view",  # decides before the chain is entered; its place in it does not matter
)

# Directives of CoreDNS 1.14.7 that hsdns refuses by name, so that nobody takes one for a typing error.
NOT_YET: Final[frozenset[str]] = frozenset(
    "geoip proxyproto quic grpc_server https3 trace "
    "shed dnstap dnssec route53 "
    "azure clouddns etcd grpc on sign nomad".split()
)
