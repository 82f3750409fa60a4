"""The cost of watching an API server: time and CPU until ready, memory, and the delay from a write to the answer.

cli -> plan: for each part and round, hsdns and CoreDNS in turn
    real_api.RealApi (etcd, kube-apiserver) or fake_api_process.FakeApiProcess: the API server, in separate processes
    server.ServerUnderTest: the server under test
    startup, latency, churn: the parts
report: table, JSON, the section of docs/performance.md
"""
