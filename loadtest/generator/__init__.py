"""The cost and the punctuality of `hsdns load`, compared with dnsperf.

measure -> figures of one run and the table, and its search for a knee
wire    -> its service times beside those of tcpdump
"""
