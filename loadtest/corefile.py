"""The Corefile of the benchmarks for hsdns and CoreDNS: kubeadm's, on free ports.

Path: watch/server.py and answering/servers.py fill it in; `outside` are lines that answer names outside the cluster.
Rule 1: `loop` and `lameduck` are left out; names outside the cluster are forwarded to a closed port.
"""

COREFILE = """\
.:{port} {{
    {bind}
    errors
    health 127.0.0.1:{health}
    ready 127.0.0.1:{ready}
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        {access}
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }}
    {outside}
    prometheus 127.0.0.1:{metrics}
    forward . 127.0.0.1:{upstream} {{
        max_concurrent 1000
    }}
    cache 30 {{
        disable success cluster.local
        disable denial cluster.local
    }}
    reload
    loadbalance
}}
"""
