"""The cost and the punctuality of `hsdns load`, compared with dnsperf.

measure -> figures of one run; report -> the table
"""
