"""A DNS server for Kubernetes clusters that takes CoreDNS's place.

The path of a query, from the wire and back; each line is a file or folder of this package:

    --> server/udp.py, tcp.py         reads datagrams and frames                  1
        --> fastpath/                 the answer table: known question -> reply   2
        --> query.py                  steps 3 to 6 in order
            --> wire/decode.py        bytes -> Query, or FORMERR                  3
                --> block_choice.py   QNAME -> server block, or REFUSED           4
                    --> chain.py      plugins in ORDER; one returns a Reply       5
            <-- wire/encode.py        Reply -> bytes, compressed, cut to fit      6
    <-- server/udp.py, tcp.py         writes                                      7
            --> answer_table/         stores replies for step 2

The path of a change in the cluster:

    sources/ -> cluster/store.py    an event swaps one Service's frozen value
                -> cluster/schema.py, at the first question: its RRsets
                   -> plugins/kubernetes.py

The path of the configuration:

    Corefile -> corefile/lexer.py -> parser.py -> assemble.py -> server/lifecycle.py
"""

__version__ = "0.1.0"
