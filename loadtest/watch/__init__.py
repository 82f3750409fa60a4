"""What it costs to follow an API server: time and CPU to ready, memory, and how soon a write is answered.

cli -> plan: for each part and round, hsdns and its peer in turn
    api.RealApi (etcd, kube-apiserver) or fake_api.FakeApi: what is watched, in processes of their own
    subject.Subject: the server that watches
    startup, latency, churn: the parts
report: table, JSON, the section of docs/performance.md
"""
