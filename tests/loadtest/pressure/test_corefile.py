from pathlib import Path

import pytest

from hsdns.corefile.parser import parse
from hsdns.corefile.tree import Corefile
from hsdns.plugins import ORDER
from loadtest.pressure.corefile import CertificateFiles, Ports, Variation, corefile

PORTS = Ports(1, 2, 3, 4, 5, 6, 7)
FILES = CertificateFiles(Path("/cert.pem"), Path("/key.pem"))


def text(variation: Variation, serial: int = 0) -> str:
    return corefile(PORTS, "endpoint http://127.0.0.1:9", variation, FILES, serial)


def read(written: str) -> Corefile:
    return parse("Corefile", text=written, environ={}, known_directives=ORDER)


@pytest.mark.parametrize(
    ("variation", "line"),
    [
        (Variation(), ".:1 {"),
        (Variation(log=True), "    log"),
        (Variation(debug=True), "    debug"),
        (Variation(zonal=True), "        zonal"),
        (Variation(doh=True), ".:1 https://.:2 tls://.:7 {"),
        (Variation(doh=True), "    tls /cert.pem /key.pem"),
        (Variation(unlimited=True), "    forward . 127.0.0.1:6"),
        (Variation(interval="2s"), "    reload 2s 1s"),
        (Variation(bulk=600), "zone-0.test:1 {"),
    ],
    ids=str,
)
def test_variation(variation: Variation, line: str) -> None:
    assert line in text(variation).splitlines()
    assert read(text(variation)).blocks


def test_bulk_is_as_long_as_it_says_and_changes_with_the_serial() -> None:
    bulk = Variation(bulk=1_100_000)
    assert 1_050_000 < len(text(bulk)) < 1_250_000
    assert text(bulk, 1) != text(bulk, 2)
