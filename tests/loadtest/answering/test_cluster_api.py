import msgspec

from hsdns.cluster.objects import EndpointSlice, Namespace, Service
from hsdns.sources.synthetic import SyntheticCluster
from loadtest.answering.cluster import Cluster
from loadtest.answering.cluster_api import manifest

VERSIONS = {"Namespace": "v1", "Service": "v1", "EndpointSlice": "discovery.k8s.io/v1"}


def test_the_api_has_the_objects_of_the_source() -> None:
    for each in SyntheticCluster(Cluster(3, 2).shape()).objects():
        written = manifest(each)
        kind = str(written.pop("kind"))
        assert written.pop("apiVersion") == VERSIONS[kind]
        types = {"Namespace": Namespace, "Service": Service, "EndpointSlice": EndpointSlice}
        assert msgspec.convert(written, types[kind]) == each
