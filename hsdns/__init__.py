"""A DNS server for Kubernetes clusters: a drop-in replacement for CoreDNS in test clusters.

The path of a query, from the wire and back; each line is a file or folder of this package:

    --> server/transport/udp.py, tcp.py    read datagrams and TCP frames         1
        --> fastpath/                      answer table: a hit is sent at once   2
        --> query.py                       on a miss: steps 3 to 6 in order
            --> wire/decode.py             bytes -> Query, or FORMERR            3
            --> chain.py                   zone and view -> block, or REFUSED    4
            --> chain.py, plugins/         plugins in ORDER; one returns a Reply 5
            <-- wire/encode.py             Reply -> bytes, truncated to fit      6
    <-- server/transport/udp.py, tcp.py    write                                 7

answer_table/ decides which replies step 2 may send, and stores them.

The path of a change in the cluster:

    apiserver/ -> sources/ -> cluster/store.py    an event replaces one Service's frozen value
                              -> cluster/schema.py    makes its RRsets at the first query
                                 -> plugins/kubernetes/

The counters of cluster/freshness.py make the stored replies stale that depend on what the event changes.

The path of the configuration:

    Corefile -> corefile/lexer.py -> parser.py -> assemble.py -> server/instance.py
"""

__version__ = "0.2.0.dev0"
