"""Answers of a Corefile in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.assemble import Configuration
from hsdns.cli.launch import CorefileSource, build
from hsdns.cli.offline import CannotTell
from hsdns.cli.resolve_chain import Chain
from hsdns.resolver.model import Answer, Fate, Packet
from hsdns.wire.iana import Rcode, RRType

HOSTS = """a.test {
hosts {
192.0.2.1 www.a.test
}
cache
}
b.test {
erratic {
drop 1
truncate 0
delay 0
}
}
"""


def configuration(folder: Path, text: str) -> Configuration:
    (folder / "Corefile").write_text(text)
    return build(
        CorefileSource(str(folder / "Corefile"), "").load(), 53, warn=lambda sentence: None
    )


def packet(name: str, transport: str = "udp") -> Packet:
    return Packet(0.0, transport, 0, "u1", 1, RRType.A, name)


def fate(chain: Chain, asked: Packet) -> Fate:
    return chain._runner.run(chain.fate(asked))


def test_answers(tmp_path: Path) -> None:
    with Chain(configuration(tmp_path, HOSTS), "192.0.2.9") as chain:
        assert fate(chain, packet("www.a.test")) == (
            0.0,
            Answer(addresses=("192.0.2.1",), ttl=3600),
        )
        assert fate(chain, packet("www.a.test", "tcp")) == (
            0.0,
            Answer(addresses=("192.0.2.1",), ttl=3600),
        )
        refused = fate(chain, packet("www.c.test"))
        assert refused is not None
        assert refused[1].rcode == Rcode.REFUSED


def test_no_answer(tmp_path: Path) -> None:
    with Chain(configuration(tmp_path, HOSTS), "192.0.2.9") as chain:
        assert fate(chain, packet("www.b.test")) is None


def test_a_truncated_answer(tmp_path: Path) -> None:
    many = "\n".join(f"192.0.2.{each} www.a.test" for each in range(60))
    text = HOSTS.replace("192.0.2.1 www.a.test", many)
    with Chain(configuration(tmp_path, text), "192.0.2.9") as chain:
        over_udp, over_tcp = (
            fate(chain, packet("www.a.test")),
            fate(chain, packet("www.a.test", "tcp")),
        )
        assert over_udp is not None
        assert over_tcp is not None
        assert over_udp[1].tc
        assert (len(over_tcp[1].addresses), over_tcp[1].tc) == (60, False)


def test_a_cluster_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("kind: [\n")
    text = f"kube.test {{\nkubernetes {{\nsource manifests {tmp_path}/x.yaml\n}}\n}}\n"
    with pytest.raises(CannotTell, match=r"^the cluster could not be read, from "):
        Chain(configuration(tmp_path, text), "127.0.0.1").__enter__()


def test_no_plain_dns(tmp_path: Path) -> None:
    with pytest.raises(
        CannotTell, match="no server block answers plain DNS, so no resolver can ask it"
    ):
        Chain(configuration(tmp_path, "https://. {\nwhoami\n}\n"), "127.0.0.1").__enter__()
