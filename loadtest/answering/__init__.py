"""What an answer costs: CPU time of the server for each query, beside its peers and the kernel's own limit.

cli -> run.Run: for each round, for each mix, all servers in turn
    cluster: the names, as questions and as a zone file; mixes: which of them are asked
    servers, peers, cluster_api: what is started, each in processes of its own
    drain, dnsperf: the two methods
results -> goals, report, plot: figures, what must hold, table, JSON, SVG, the section of docs/performance.md
"""
