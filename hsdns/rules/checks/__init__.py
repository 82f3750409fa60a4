"""The checks of all rules, by subject; each function has the code of its rule.

readable.py         values that the API server refuses, kinds and fields that it does not know
selector.py         Services and the pods that they select
pod_name.py         hostname, subdomain and serviceName: the names of pods
shared_pods.py      several Services with the same pods
port.py             ports of Services, slices and containers
endpoint_slice.py   EndpointSlices and Endpoints written by hand
endpoint_count.py   Services with many endpoints
readiness.py        endpoints that are not ready
external_name.py    targets of ExternalName Services
captured_name.py    external names that the search list matches first
network_policy.py   policies that keep pods from DNS
pod_dns.py          dnsPolicy and dnsConfig
search_cost.py      queries caused by the search list
cluster_role.py     what a DNS server may read
dns_pods.py         the pods of the cluster's own DNS
dns_memory.py       the memory that these use
cluster_domain.py   the domain of the cluster, wherever it is configured
dns_answers.py      answers of the DNS servers
corefile_cache.py   how long answers are stored
corefile_forward.py upstreams for names outside the cluster
corefile_order.py   which plugin answers first, and which never
corefile_rewrite.py effects of rewrite and template on names and replies
corefile_health.py  probes of the DNS server, and its Corefile as a whole
"""

from typing import Final

from hsdns.rules.checks import (
    captured_name,
    cluster_domain,
    cluster_role,
    corefile_cache,
    corefile_forward,
    corefile_health,
    corefile_order,
    corefile_rewrite,
    dns_answers,
    dns_memory,
    dns_pods,
    endpoint_count,
    endpoint_slice,
    external_name,
    network_policy,
    pod_dns,
    pod_name,
    port,
    readable,
    readiness,
    search_cost,
    selector,
    shared_pods,
)

MODULES: Final = (
    readable,
    selector,
    pod_name,
    shared_pods,
    port,
    endpoint_slice,
    endpoint_count,
    readiness,
    external_name,
    captured_name,
    network_policy,
    pod_dns,
    search_cost,
    cluster_role,
    corefile_cache,
    corefile_forward,
    corefile_health,
    corefile_order,
    corefile_rewrite,
    dns_pods,
    dns_memory,
    cluster_domain,
    dns_answers,
)
