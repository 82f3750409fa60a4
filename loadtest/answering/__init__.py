"""The cost of an answer: CPU time of the server per query, compared with other servers and with the kernel's own cost.

cli -> run.Run: for each round, for each mix, all servers in turn
    cluster: the names, as questions and as a zone file; mixes: which of them are queried
    servers, peers, cluster_api: the servers, each in its own processes
    drain, and dnsperf (../generators.py): the two methods
results -> goals, report: figures, limits and goals, table, JSON, the section of docs/performance.md
"""
