"""The thread of a cluster: its questions, its truth, and its changes in both."""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

import pytest

from hsdns.assemble import Configuration
from hsdns.cli.offline import configure
from hsdns.corefile.tree import Position, Token
from hsdns.load.cli.cluster import LoadCluster, following_changes
from hsdns.load.cluster.names import cluster_questions
from hsdns.load.errors import LoadError
from hsdns.load.questions import Questions
from hsdns.plugins.kubernetes import Kubernetes
from tests.load.cli.test_settings import settings
from tests.load.servers import server
from tests.support.apiserver.real_api import RealApi, missing_assets

SYNTHETIC = ("synthetic", "services=2", "endpoints=2", "headless=1")


def choose(blocks: Sequence[Kubernetes]) -> Questions:
    return cluster_questions([block.answer_set() for block in blocks], None, 0.0, 1)


def cluster(*words: str, verifies: bool = True, api: bool = True) -> LoadCluster:
    tokens = tuple(Token(word, Position("-source", 0, 0)) for word in words or SYNTHETIC)
    configuration, _ = configure(None, tokens)
    address = ("127.0.0.1", 0) if api else None
    return LoadCluster(configuration, choose, verifies=verifies, serves=address)


@pytest.mark.sockets
def test_changes_are_in_the_truth_and_in_the_api() -> None:
    with cluster() as found:
        assert {each.group for each in found.questions.all} == {"headless", "endpoint", "srv", "reverse", "absent"}  # fmt: skip
        assert found.truth is not None
        assert found.api is not None
        assert not found.truth.changes
        before = version(found.api.url)
        with found.churning(500.0):
            while len(found.truth.changes) < 3:
                version(found.api.url)
        after = version(found.api.url)
        assert after - before == len(found.truth.changes)


def version(url: str) -> int:
    """That of a list of the API."""
    with urlopen(f"{url}/apis/discovery.k8s.io/v1/endpointslices") as answer:
        return int(json.load(answer)["metadata"]["resourceVersion"])


def corefile(folder: Path, api: RealApi, token: str) -> Configuration:
    """A Corefile with a kubeconfig for an API server."""
    kubeconfig, file = folder / "kubeconfig", folder / "Corefile"
    authority = b64encode(api.authority).decode()
    kubeconfig.write_text(f"""
apiVersion: v1
kind: Config
current-context: it
contexts: [{{name: it, context: {{cluster: it, user: it}}}}]
clusters: [{{name: it, cluster: {{server: "https://127.0.0.1:{api.port}", certificate-authority-data: {authority}}}}}]
users: [{{name: it, user: {{token: {token}}}}}]
""")
    file.write_text(
        f"cluster.local {{\n    kubernetes cluster.local {{\n        kubeconfig {kubeconfig}\n    }}\n}}\n"
    )
    return configure(str(file), None)[0]


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.skipif(bool(missing_assets()), reason=missing_assets())
def test_changes_through_a_real_api(tmp_path: Path) -> None:
    with RealApi() as api:
        with LoadCluster(corefile(tmp_path, api, api.admin), choose, verifies=True, changes_api=True) as found:  # fmt: skip
            (name,) = [each for each in names(api, "Namespace") if each.startswith("hsdns-load-")]
            assert found.awaited is not None
            assert f".{name}." in found.awaited.name.to_text()
            assert found.truth is not None
            follower = found.follow(10_000.0, lambda event: True)
            with found.churning(100.0):
                while not any(each.written is not None for each in follower.events):
                    names(api, "EndpointSlice")
            assert found.failure == ""
            for event in follower.events:
                assert event.key[0] == name.encode()
                assert event.written is None or event.written < event.seen
        assert not [each for each in names(api, "EndpointSlice") if each.startswith("svc-")]
        assert not [each for each in names(api, "Service") if each.startswith("svc-")]
        # No controller takes it away here, but that it is to go.
        assert [each["metadata"]["name"] for each in api.items("Namespace") if "deletionTimestamp" in each["metadata"]] == [name]  # fmt: skip
        with pytest.raises(LoadError, match=r'^-churn-api: Namespace hsdns-load-.* cannot be made: 403 .*"contract" cannot create resource "namespaces"'), LoadCluster(corefile(tmp_path, api, api.token), choose, verifies=True, changes_api=True):  # fmt: skip
            pass


def names(api: RealApi, kind: str) -> list[str]:
    return [each["metadata"]["name"] for each in api.items(kind)]


@pytest.mark.parametrize("words", ["-queries q", "-source synthetic -verify", "-source synthetic -api [::1]:0 -churn 5 -verify -probes 0"])  # fmt: skip
def test_nothing_is_followed(words: str) -> None:
    given = settings(words)
    with following_changes(given, None, [], []) as following:
        following.take()
        assert following.report(0, 0.0, 1.0) is None


@pytest.mark.sockets
@pytest.mark.slow
def test_changes_of_a_cluster_are_followed() -> None:
    """The server never answers: each change is asked about in vain, and left out."""
    words = "-source synthetic -api [::1]:0 -churn 5 -verify -probes 1000"
    given = settings(words)
    with server(ignored=1 << 30) as port, cluster() as found:
        place = socket.AF_INET, ("127.0.0.1", port)
        queries = [each.query() for each in found.questions.all]
        with following_changes(given, found, [place], queries) as following:
            assert found.truth is not None
            with found.churning(200.0):
                while len(found.truth.changes) < 10:
                    following.take()
        report = following.report(0, 0.0, float("inf"))
    assert report is not None
    assert 0 < report.followed == report.left_out
