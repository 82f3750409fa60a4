"""What options of a kubernetes block exclude, need and mean; setup as a whole is tested in test_kubernetes.py."""

from __future__ import annotations

from typing import Any

import pytest

from hsdns.apiserver.resource import SERVICE_IMPORTS
from hsdns.corefile.tree import CorefileError, Token
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.plugins.kubernetes.options import (
    api_server,
    check_together,
    line_of,
    named_source,
    read_ignore,
    read_selector,
    read_zones,
)
from hsdns.sources.api_server import ApiServer
from hsdns.sources.manifests import Manifests
from hsdns.sources.synthetic import Synthetic
from hsdns.wire.name import Name
from tests.support.plugins.setup import directives, make_block

ZONES = (Name.from_text("cluster.local"), Name.from_text("clusterset.local"))
NOTHING: dict[str, Any] = {
    name: known.default for name, known in Kubernetes.PROPERTIES.items() if known.repeat != "collect"
}  # fmt: skip


def line(text: str) -> Any:
    """A line of a block's body."""
    return directives(f"kubernetes {{\n{text}\n}}")[0].lines[0]


@pytest.mark.parametrize(
    ("body", "options", "zones", "sentence"),
    [
        pytest.param(
            "zonal\nnoendpoints",
            {"zonal": True, "noendpoints": True},
            ZONES,
            'Corefile:3:1: "zonal" needs endpoints, but "noendpoints" disables them; remove one of the two',
            id="zonal without endpoints",
        ),
        pytest.param(
            "ttl 5\nmulticluster shared.local",
            {"multicluster": (Name.from_text("shared.local"),)},
            ZONES,
            "Corefile:4:1: zone shared.local. of multicluster is not one of the plugin's zones "
            "(cluster.local. clusterset.local.); add it after the word kubernetes",
            id="multicluster elsewhere",
        ),
        pytest.param(
            "ttl 5",
            {},
            (Name.from_text("10.in-addr.arpa"),),
            "Corefile:2:1: kubernetes needs a forward zone for the names in PTR records; "
            "add for example cluster.local",
            id="reverse zones alone",
        ),
    ],
)
def test_what_does_not_go_together(
    body: str, options: dict[str, Any], zones: tuple[Name, ...], sentence: str
) -> None:
    (directive,) = directives(f"kubernetes {{\n{body}\n}}")
    with pytest.raises(CorefileError) as caught:
        check_together(directive, zones, NOTHING | options, make_block())
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"zonal": True},
        {"multicluster": ZONES[1:]},
        {"multicluster": ZONES, "noendpoints": True},
        {"zonal": True, "multicluster": ZONES[:1]},
    ],
)
def test_what_does(options: dict[str, Any]) -> None:
    warnings: list[str] = []
    (directive,) = directives("kubernetes")
    check_together(directive, ZONES, NOTHING | options, make_block(warnings=warnings))
    assert warnings == []


def test_options_without_effect_are_warnings() -> None:
    warnings: list[str] = []
    (directive,) = directives("kubernetes")
    options = NOTHING | {"apiserver_burst": 1}
    check_together(directive, ZONES, options, make_block(warnings=warnings))
    assert warnings == ['Corefile:2:1: "apiserver_burst" has no effect, as in CoreDNS 1.14.7']


def test_readers() -> None:
    assert read_zones(line("multicluster A.local 10.0.0.0/8")) == (
        Name.from_text("a.local"),
        Name.from_text("10.in-addr.arpa"),
    )
    assert read_ignore(line("ignore empty_service"))
    assert not read_ignore(line("ignore"))
    assert str(read_selector(line("labels app=web, tier"))) == "app=web,tier"


@pytest.mark.parametrize("text", ["labels", "labels ="])
def test_a_selector_that_is_none(text: str) -> None:
    with pytest.raises(CorefileError):
        read_selector(line(text))


def test_the_last_line_of_a_name_counts() -> None:
    (directive,) = directives("kubernetes {\nttl 5\nttl 6\n}")
    assert line_of(directive, "ttl").position.line == 4
    assert line_of(directive, "pods").position.line == 2


@pytest.mark.parametrize("validating", [True, False])
def test_a_missing_path_is_a_warning_of_validate_alone(validating: bool) -> None:
    warnings: list[str] = []
    found = named_source(
        line("source manifests /no/such/path"), make_block(warnings=warnings, validating=validating)
    )
    assert isinstance(found, Manifests)
    sentence = (
        'Corefile:3:8: source manifests: there is no file or folder "/no/such/path"; '
        "correct the path or create it"
    )
    assert warnings == ([sentence] if validating else [])


def test_sources() -> None:
    block = make_block()
    assert named_source(None, block) is None
    assert isinstance(named_source(line("source synthetic"), block), Synthetic)
    word = Token("synthetic", line("ttl 5").name.position)
    assert isinstance(named_source(line("source manifests x"), block._replace(source=(word,))), Synthetic)  # fmt: skip


@pytest.mark.parametrize(("zones", "watched"), [((), False), (ZONES[1:], True)])
def test_imports_are_watched_only_where_a_zone_shows_them(
    zones: tuple[Name, ...], watched: bool
) -> None:
    (directive,) = directives("kubernetes")
    source = api_server(directive, NOTHING | {"multicluster": zones}, make_block())
    assert isinstance(source, ApiServer)
    assert any(scope.resource is SERVICE_IMPORTS for scope in source.options.scopes) is watched
