"""A cluster's DNS for tests: Kubernetes objects in Python, a server on loopback, and its recorded queries.

    with Cluster() as cluster:
        web = cluster.service("web", headless=True, ports={"http": 8080}).endpoints("10.0.0.1")

`hsdns_cluster` is the same as a pytest fixture (hsdns/pytest_plugin.py).  See docs/testing.md.

    cluster.py    Cluster: what a test starts and asks, and what the server answers now
    patch.py      the resolvers of Python and of its libraries, led to the cluster
    objects.py    Service, Endpoint and StatefulSet: how a test changes the objects -> documents -> events
    server.py     the server on its thread, and what notes each query there
    queries.py    the queries that came, and assertions about them
    fault.py      DNS that misbehaves within a `with`, by a rule or by the steps of a fault scenario
    pod.py        a command in namespaces of its own (pod_process.py runs in them)
    errors.py     what is wrong with a call
"""

from hsdns.faults.words import Do, When
from hsdns.testing.cluster import Cluster
from hsdns.testing.errors import ClusterError, NoNamespaces
from hsdns.testing.fault import Fault, Scenario
from hsdns.testing.objects import Endpoint, Service, StatefulSet
from hsdns.testing.pod import Pod
from hsdns.testing.queries import Queries, Query

__all__ = [
    "Cluster",
    "ClusterError",
    "Do",
    "Endpoint",
    "Fault",
    "NoNamespaces",
    "Pod",
    "Queries",
    "Query",
    "Scenario",
    "Service",
    "StatefulSet",
    "When",
]
