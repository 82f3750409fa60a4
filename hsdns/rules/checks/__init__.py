"""The checks of all rules, by subject; each function has the code of its rule.

readable.py         values that the API server refuses, kinds and fields that it does not know
services.py         Services: the pods that they select, external names, names that the search list matches first
pods.py             names of pods, dnsPolicy and dnsConfig, queries caused by the search list
endpoints.py        EndpointSlices and Endpoints: their ports, number and readiness
names.py            names of Services that other objects use
network_policy.py   policies that keep pods from DNS
dns.py              the cluster's own DNS: its pods, memory, role, domain and answers
corefile.py         Corefiles: cache, forward, the order of plugins, rewrite and template, probes
corefile_hints.py   Corefiles: valid parts that are probably mistakes
"""

from typing import Final

from hsdns.rules.checks import (
    corefile,
    corefile_hints,
    dns,
    endpoints,
    names,
    network_policy,
    pods,
    readable,
    services,
)

MODULES: Final = (
    readable, services, pods, endpoints, names, network_policy, dns, corefile, corefile_hints,
)  # fmt: skip
