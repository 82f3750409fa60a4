"""The cost and the punctuality of `hsdns load`, compared with dnsperf.

measure -> figures of one run and the table; knee: its search for a knee
"""
