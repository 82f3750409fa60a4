"""The cost of watching an API server: time and CPU until ready, memory, and the delay from a write to the answer.

__main__: for each part and round, hsdns and CoreDNS in turn
    api_servers: a real API server (etcd, kube-apiserver), or the in-test one, in separate processes
    ../server: the server under test
    parts: what is measured
report: table, JSON, limits, the section of docs/contributing/benchmarks.md
"""
