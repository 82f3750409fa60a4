from pathlib import Path

import pytest

from hsdns.corefile.parser import parse
from hsdns.plugins import ORDER
from loadtest.answering import peers
from loadtest.answering.cluster import Cluster
from loadtest.answering.peers import Location, write
from loadtest.corefile import COREFILE


@pytest.mark.parametrize("name", ["KNOT", "NSD", "UNBOUND", "DNSDIST"])
def test_configurations_are_whole(name: str, tmp_path: Path) -> None:
    location = Location(tmp_path, 20_001, tmp_path / "zone", 20_002)
    text = write(getattr(peers, name), location).read_text()
    assert "20001" in text
    assert ("20002" if name == "DNSDIST" else str(location.zone_file)) in text
    assert "{port}" not in text


@pytest.mark.parametrize(
    ("outside", "others"),
    [("", []), (Cluster(endpoints=3).cached_block(), ["template"])],
    ids=["kubeadm's", "with names outside the cluster"],
)
def test_the_corefile_is_kubeadms(outside: str, others: list[str]) -> None:
    numbers = {"port": 1, "health": 2, "ready": 3, "metrics": 4, "upstream": 5}
    text = COREFILE.format(
        **numbers, bind="", access="source synthetic services=1", outside=outside
    )
    (block,) = parse("Corefile", text=text, environ={}, known_directives=ORDER).blocks
    assert [each.name.text for each in block.directives] == [
        "errors", "health", "ready", "kubernetes", *others, "prometheus", "forward", "cache", "reload", "loadbalance",
    ]  # fmt: skip
