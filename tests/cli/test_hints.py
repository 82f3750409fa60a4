"""Hints: each on a Corefile that it is for, its neighbours without one, and no Corefile of the tree hinted at wrongly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from hsdns.assemble import assemble
from hsdns.corefile.tree import Errors
from hsdns.rules.checks.corefile_hints import hints
from tests.docs.test_examples import COREFILES, Fence, write_files
from tests.support.plugins.corefiles import parsed
from tests.support.scenarios.scenario import parse as parse_scenario

ROOT = Path(__file__).resolve().parents[2]


def hinted(
    text: str, environ: Mapping[str, str] | None = None, *, path: str = "Corefile"
) -> list[str]:
    """The hints about a Corefile, which may have errors, too."""
    errors = Errors(collecting=True)
    corefile = parsed(text, path, environ, errors=errors)
    configuration = assemble(
        corefile,
        interfaces=lambda: {"lo": ["127.0.0.1"], "eth0": ["192.0.2.9"]},
        validating=True,
        warn=lambda sentence: None,
        errors=errors,
    )
    return [f"{at.line}:{at.column} {message}" for at, message in hints(corefile, configuration)]


TTL = 'a TTL is a number of seconds without a unit, as in "cache 30"'
BRACES = "write properties into braces, each on a line of its own"
NETWORK = 'the zone of a network has the form "10.244.0.0/16"'
NO_EFFECT = "has no effect: this server block gets only queries for"
ITSELF = (
    "is this server itself, so every query comes back to it until it times out; write the address of another server, "
    "or the resolv.conf that the node's resolver reads"
)
HOSTS = (
    "hosts answers SERVFAIL for each name that it does not have, so {} is never asked for an address; "
    'add "fallthrough" in its braces'
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Words that are taken for zones.
        pytest.param(". {\ncache thirty\n}", [f'2:7 "thirty" is taken for a zone; {TTL}'], id="number-in-words"),
        pytest.param(". {\ncache 3O\n}", [f'2:7 "3O" is taken for a zone; {TTL}'], id="letter-in-a-number"),
        pytest.param(". {\ncache 30 1m30s\n}", [f'2:10 "1m30s" is taken for a zone; {TTL}'], id="duration"),
        pytest.param(". {\ncache 30 prefetch 10\n}", [f'2:10 "prefetch" is taken for a zone; {BRACES}', f'2:19 "10" is taken for a zone; {TTL}'], id="property-of-cache"),
        pytest.param(". {\nkubernetes cluster.local fallthrough\n}", [f'2:26 "fallthrough" is taken for a zone; {BRACES}'], id="property-of-kubernetes"),
        pytest.param(". {\nkubernetes cluster.local {\nfallthrough on\n}\n}", ['3:13 "on" is taken for a zone; if it is one, write "on."'], id="fallthrough-on"),
        pytest.param(". {\nkubernetes cluster.local 10.244.0.0\n}", [f'2:26 "10.244.0.0" is taken for a zone; {NETWORK}'], id="network-without-length"),
        pytest.param(". {\nkubernetes cluster.local 10.0.0.0/33\n}", [f'2:26 "10.0.0.0/33" is taken for a zone; {NETWORK}'], id="network-too-long"),
        pytest.param(". {\nforward 192.0.2.1 192.0.2.2\n}", ['2:9 "192.0.2.1" is taken for a zone; the first argument of forward is a zone, as in "forward . 192.0.2.1"'], id="forward-without-zone"),
        pytest.param(". {\nforward . 192.0.2.1 {\nexcept 10.0.0.1\n}\n}", [f'3:8 "10.0.0.1" is taken for a zone; {NETWORK}'.replace(NETWORK, 'the first argument of forward is a zone, as in "forward . 10.0.0.1"')], id="except-an-address"),
        pytest.param(". {\nlog error\nwhoami\n}", ['2:5 "error" is taken for a zone; write the class into braces: "log {", "class error", "}"'], id="class-of-log"),
        pytest.param(". {\nlog stdout\nwhoami\n}", ['2:5 "stdout" is taken for a zone; log writes to standard output anyway, so leave it out'], id="output-of-log"),
        pytest.param(". {\ncache *.example.org a.org,b.org\n}", [f'2:{at} "{word}" is taken for a zone; zones are separated by spaces and have no wildcards' for at, word in ((7, "*.example.org"), (21, "a.org,b.org"))], id="no-host-name"),
        pytest.param(". {\nforward . 192.0.2.1 force_tcp\n}", [f'2:21 "force_tcp" is taken for the host name of an upstream; {BRACES}'], id="property-of-forward"),
        # Those that are meant.
        pytest.param(". {\ncache thirty. 30. prefetch.\nlog error.\n}", [], id="with-a-dot"),
        pytest.param(". {\ncache lan consul 30 {\nprefetch 10\n}\nkubernetes cluster.local 10.0.0.0/8 {\nfallthrough in-addr.arpa\n}\nlog _tcp.example.org\nfile /dev/null 0/25.2.0.192.in-addr.arpa\n}", [*(f"2:{at} no plugin of this server block answers names of {zone}, so none is cached" for at, zone in ((7, "lan"), (11, "consul"))), '2:18 "30" is taken for a zone; a TTL is a number of seconds without a unit, as in "cache 30"'], id="zones"),
        pytest.param(". {\nforward . 192.0.2.1\ncache 30\nlog . {combined}\nbind 127.0.0.1\n}", [], id="usual"),
        # Zones of which no name arrives.
        pytest.param("example.org {\nkubernetes cluster.local\n}", [f"2:12 kubernetes {NO_EFFECT} example.org., none of which is in cluster.local."], id="another-zone"),
        pytest.param("cluster.local {\nkubernetes cluster.local in-addr.arpa\ncache 30 svc.cluster.local\n}\norg {\ncache example.org\n}", [], id="above-and-below"),
        pytest.param("example.org {\nkubernetes cluster.local\nk8s_external example.org\n}", [], id="for-k8s_external"),
        pytest.param("example.org {\nrewrite name suffix example.org cluster.local\nkubernetes cluster.local\n}", [], id="after-rewrite"),
        # Blocks.
        pytest.param(". {\nwhoami\n}\nlog\n", ['4:1 "log" is taken for the zone of a server block; is a "}" too early, so that this line is not in the block above?'], id="a-plugin-as-zone"),
        pytest.param("local {\nwhoami\n}\nlog. {\nwhoami\n}", [], id="zones-with-the-names-of-plugins"),
        # forward.
        pytest.param(". {\nforward . 192.0.2.1 {\ntls_servername dns.example.org\n}\n}", ['3:1 "tls_servername" has no effect, and queries are forwarded unencrypted: no upstream is written as "tls://ADDRESS"'], id="no-tls"),
        pytest.param(". {\nforward . tls://192.0.2.1 {\ntls_servername dns.example.org\n}\n}", [], id="tls"),
        pytest.param(". {\nforward . 127.0.0.1\n}", [f"2:11 127.0.0.1 {ITSELF}"], id="itself"),
        pytest.param(". {\nbind 192.0.2.9\nforward . 192.0.2.9:53\n}", [f"3:11 192.0.2.9:53 {ITSELF}"], id="itself-where-bound"),
        pytest.param(". {\nforward . 127.0.0.1:1053 192.0.2.1\n}\n.:1053 {\nbind 127.0.0.2\nforward . 127.0.0.1\n}", [], id="another-port"),
        pytest.param(". {\nbind 192.0.2.9\nforward . 127.0.0.1\n}", [], id="bound-elsewhere"),
        pytest.param("tls://. {\ntls FOLDER/server.pem FOLDER/server.key\nforward . 127.0.0.1:853\n}", [], id="another-scheme"),
        pytest.param(". {\nrewrite name suffix a.org b.org\nforward . 127.0.0.1\n}", [], id="to-another-block"),
        # hosts.
        pytest.param(". {\nhosts {\n192.0.2.1 a.example.org\n}\nforward . 192.0.2.53\n}", [f"2:1 {HOSTS.format('forward at Corefile:5:1')}"], id="hosts-hides-forward"),
        pytest.param(". {\nhosts {\n192.0.2.1 a.example.org\nfallthrough\n}\nforward . 192.0.2.53\n}", [], id="fallthrough"),
        pytest.param(". {\nhosts /etc/hosts example.org {\n192.0.2.1 a.example.org\n}\nforward . 192.0.2.53\n}", [], id="hosts-of-one-zone"),
        pytest.param(". {\nhosts {\n192.0.2.1 a.example.org\n}\n}", [], id="hosts-alone"),
        pytest.param("10.in-addr.arpa {\nhosts {\n10.0.0.1 a.example.org\n}\nforward . 192.0.2.53\n}", [], id="hosts-of-addresses"),
        # acl, kubernetes.
        pytest.param(". {\nacl {\nallow net 192.0.2.0/24\n}\nwhoami\n}", ['2:1 acl has no effect: its rules only allow, and so does the end of the list; add "block" as the last rule'], id="only-allowed"),
        pytest.param(". {\nacl {\nallow net 192.0.2.0/24\n}\nacl {\nblock\n}\nwhoami\n}", [], id="allowed-and-blocked"),
        pytest.param(". {\nkubernetes cluster.local {\nnamespaces default Shop a,b\n}\n}", [f'3:{at} no namespace can have the name "{word}", so nothing is served of it; names are in lower case and separated by spaces' for at, word in ((20, "Shop"), (25, "a,b"))], id="namespaces"),
        # The environment.
        pytest.param(". {\nhosts {$FILE} {\nfallthrough\n}\nwhoami\n}", ['2:7 the environment variable FILE is not set, so "" is used here'], id="unset"),
        pytest.param(". {\nhosts /etc/{%EMPTY%} {\nfallthrough\n}\nwhoami\n}", ['2:7 the environment variable EMPTY is empty, so "/etc/" is used here'], id="empty"),
        pytest.param(". {\nhosts {$SET} {\nfallthrough\n}\nlog {$LOGGED}\nwhoami\n}", [], id="set-or-optional"),
        # Lines that can never act, or seem so.
        pytest.param(". {\nforward a.org 192.0.2.1 {\nexcept b.a.org\n}\nforward . 192.0.2.2 {\nnext NXDOMAIN\n}\nforward . 192.0.2.3\n}", [], id="forwards-in-turn"),
        pytest.param(". {\nforward a.org 192.0.2.1 {\nexcept b.a.org\n}\nforward b.a.org 192.0.2.1\nforward c.a.org 192.0.2.1\n}", ["6:1 this forward is never asked: the forward at Corefile:2:1 has c.a.org too; remove one, or write all upstreams into one"], id="forward-below-except"),
        pytest.param(". {\ntemplate IN A a.org {\nanswer x\n}\ntemplate IN AAAA a.org {\nanswer x\n}\ntemplate ANY ANY a.org {\nfallthrough\n}\nfile /dev/null a.org\n}", [], id="templates-in-turn"),
        pytest.param(". {\nlog a.org\nlog b.org\nlog\nacl {\nblock net 10.0.0.0/8\nallow\n}\nwhoami\n}", [], id="from-narrow-to-wide"),
        pytest.param(". {\nrewrite name a.org b.org\nfile /dev/null b.org {\nfallthrough\n}\nforward b.org 192.0.2.1\nerratic\n}", [], id="file-falls-through"),
        pytest.param(". {\nforward . 192.0.2.1\nwhoami\n}", ["3:1 this whoami is never asked: the forward at Corefile:2:1 has . too; remove one, or write all upstreams into one"], id="whoami-after-forward"),
        pytest.param("a.org {\nfile /dev/null a.org\nforward . 192.0.2.1\n}", ["3:1 this forward is never asked: the file at Corefile:2:1 answers all names of a.org; give that one fallthrough, or other zones"], id="a-zone-wider-than-its-block"),
        pytest.param("a.org b.org {\nfile /dev/null a.org\nforward . 192.0.2.1\n}", [], id="another-zone-of-the-block"),
        pytest.param(". {\nview a {\nexpr true\n}\nwhoami\n}\n. {\nwhoami\n}", [], id="view-above"),
        pytest.param(". {\nhosts {\n192.0.2.1 a.org\nfallthrough }\nwhoami\n}", ['4:13 "}" is an argument of "fallthrough" here, as in CoreDNS; put it on a line of its own'], id="brace"),
        # Beside an error.
        pytest.param(". {\ncache thirty\nforward . nope:x\n}", [f'2:7 "thirty" is taken for a zone; {TTL}'], id="with-an-error"),
    ],
)  # fmt: skip
def test_hints(text: str, expected: list[str]) -> None:
    text = text.replace("FOLDER", str(ROOT / "tests" / "data" / "tls"))
    assert hinted(text, {"SET": "/dev/null", "EMPTY": ""}) == expected


# Corefiles of the tree that do what is hinted at, each with the reason.
MEANT = {
    "tests/scenarios/file/fallthrough.md": "only what falls through reaches hosts, and nothing passes it",
}


# What deploy/components/sidecar sets.
POD = {"POD_NAMESPACE": "shop", "CLUSTER_DNS": "10.96.0.10"}


def corefiles() -> Iterator[tuple[str, str]]:
    """All files of the tree with a Corefile, but for the pages of docs."""
    for path in sorted((ROOT / "tests/scenarios").rglob("*.md")):
        if path.name != "README.md":
            yield path.relative_to(ROOT).as_posix(), parse_scenario(path).corefile
    for path in sorted((ROOT / "tests/stock").rglob("*Corefile*")):
        yield path.relative_to(ROOT).as_posix(), path.read_text()
    for path in sorted((ROOT / "deploy").rglob("configmap.yaml")):
        if "helm" not in path.parts:  # its template makes one that is like that of deploy/base
            for document in yaml.safe_load_all(path.read_text()):
                yield path.relative_to(ROOT).as_posix(), document["data"]["Corefile"]


FOUND = list(corefiles())


def test_there_are_corefiles() -> None:
    assert len(FOUND) > 100
    assert set(MEANT) <= {path for path, _ in FOUND}


@pytest.mark.parametrize(("path", "text"), FOUND, ids=[path for path, _ in FOUND])
def test_no_corefile_of_the_tests_is_hinted_at_wrongly(
    path: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = (ROOT / path).parent
    monkeypatch.chdir(folder)
    text = text.replace("SCENARIO_FOLDER", str(folder)).replace("UPSTREAM_PORT", "5353")
    found = hinted(text, POD, path=str(folder / "Corefile"))
    assert bool(found) == (path in MEANT), found


@pytest.mark.parametrize("fence", COREFILES, ids=str)
def test_no_corefile_of_the_documentation_is_hinted_at(
    fence: Fence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(fence.page)
    assert hinted(fence.body, path=fence.title or "Corefile") == []
