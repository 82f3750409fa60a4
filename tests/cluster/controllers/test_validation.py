"""What is refused, and what is unusual, but valid: the rows are in tests/support/manifests/mistakes.yaml.

tests/sources/test_same_as_api_server.py compares them with an API server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hsdns.cluster.controllers import defaults
from hsdns.cluster.controllers.defaults import Refused
from hsdns.cluster.controllers.document import Document, check_document
from hsdns.cluster.controllers.kinds import KINDS
from tests.support.manifests.mistakes import Mistake, mistakes


def checked(manifest: dict[str, Any]) -> Document:
    kind = KINDS[manifest["apiVersion"].rpartition("/")[0], manifest["kind"]]
    return check_document(manifest["kind"], msgspec.convert(manifest, kind), "a.yaml:1")


@pytest.mark.parametrize(
    "mistake", [pytest.param(each, id=each.id) for each in mistakes("refused")]
)
def test_mistakes(mistake: Mistake) -> None:
    with pytest.raises(Refused) as caught:
        checked(mistake.manifest)
    assert str(caught.value) == f"{mistake.at}: {mistake.sentence}"
    assert caught.value.field == mistake.at


@pytest.mark.parametrize(
    ("check", "valid", "refused"),
    [
        pytest.param(defaults.check_label, ["a", "1a", "a" * 63], ["", "a" * 64, "-a", "a-", "A", "a.b", "a\n"], id="label"),
        pytest.param(defaults.check_name, ["a.b-c", "a" * 253], ["", "a" * 254, "a..b", ".a", "a.", "a-.b", "A"], id="name"),
        pytest.param(defaults.check_domain, ["a", "a.b.", "a" * 64 + ".b"], ["", ".", "a..", "a_b", "http://a", "a/b", "a:80", "A.b", "a b"], id="domain"),
        pytest.param(defaults.check_address, ["10.0.0.1", "fd00::1", "::ffff:10.0.0.1"], ["", "10.0.0", "10.0.0.01", "10.0.0.1/8", "fe80::1%eth0", "a"], id="address"),
        pytest.param(defaults.check_endpoint_address, ["10.0.0.1", "224.0.1.0", "fd00::1", "ff05::2"], ["0.0.0.0", "127.1.2.3", "169.254.0.1", "224.0.0.255", "::", "::1", "fe80::1", "febf::1", "ff12::1", "::ffff:127.0.0.1"], id="endpoint-address"),
        pytest.param(lambda field, text: defaults.check_endpoint_address(field, text, "IPv4"), ["10.0.0.1", "::ffff:10.0.0.1"], ["fd00::1"], id="IPv4"),
        pytest.param(lambda field, text: defaults.check_endpoint_address(field, text, "IPv6"), ["fd00::1"], ["10.0.0.1", "::ffff:10.0.0.1"], id="IPv6"),
        pytest.param(defaults.check_port, [1, 65_535], [0, -1, 65_536, 2**40], id="port"),
        pytest.param(defaults.check_port_name, ["a", "1a", "a-1-b", "a" * 15], ["", "1", "-a", "a-", "a--b", "A", "a" * 16, "8080"], id="port-name"),
        pytest.param(lambda field, key: defaults.check_labels(field, {key: ""}), ["a", "A.b_c-d", "a.example/b", "a" * 63], ["", "-a", "a b", "/a", "a/b/c", "a" * 64], id="key"),
        pytest.param(lambda field, value: defaults.check_labels(field, {"a": value}), ["", "a", "1.A_b", "a" * 63], ["-", "b c", "a" * 64, "é"], id="value"),
    ],
)  # fmt: skip
def test_border(check: Callable[[str, Any], None], valid: list[Any], refused: list[Any]) -> None:
    for value in valid:
        check("field", value)
    for value in refused:
        with pytest.raises(Refused, match=r"^field"):
            check("field", value)
