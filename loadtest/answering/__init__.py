"""The cost of an answer: CPU time of the server per query, compared with other servers and with the kernel's own cost.

__main__ -> run.Run: for each round, for each mix, all servers in turn
    cluster: the names, as questions, as a zone file and behind an API server; mixes: which of them are queried
    servers: the servers, each in its own processes
    drain, and dnsperf (../generators.py): the two methods
results: figures, limits and goals, table, JSON, the section of docs/contributing/benchmarks.md
"""
