"""What sign writes, held against a file that CoreDNS 1.14.7 wrote with the same key, and when it writes."""

from __future__ import annotations

import re
from pathlib import Path

import dns.dnssec
import dns.name
import dns.zone
import pytest
from dns.node import Node
from dns.rdataset import Rdataset
from dns.rdatatype import DNSKEY, SOA
from dns.rdtypes.ANY.RRSIG import RRSIG

from hsdns.plugins.sign import Sign
from tests.support.coroutines.eager import finish
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

FOLDER = Path(__file__).parents[1] / "scenarios" / "dnssec"
HOUR, DAY = 3600, 86400


def contents(path: Path) -> list[str]:
    """The records of a signed zone, without times; all signatures are verified."""
    apex = dns.name.from_text("example.org.")
    zone = dns.zone.from_file(path, apex, relativize=False)
    keys: dict[dns.name.Name, Node | Rdataset] = {apex: zone.find_rdataset(apex, DNSKEY)}
    found = []
    for name, ttl, rdata in zone.iterate_rdatas():
        if isinstance(rdata, RRSIG):
            signed, now = zone.find_rdataset(name, rdata.type_covered), rdata.inception + DAY
            dns.dnssec.validate_rrsig(
                (name, signed), rdata, keys, now=now, policy=dns.dnssec.allow_all_policy
            )
            rdata = rdata.replace(expiration=0, inception=0, signature=b"")
        found.append(
            f"{name} {ttl} {rdata.rdtype} {rdata.replace(serial=0) if rdata.rdtype == SOA else rdata}"
        )
    return sorted(found)


def test_signed_as_by_coredns_and_again_in_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    target, runtime = tmp_path / "db.example.org.signed", FakeRuntime(1)
    plugin = set_up(
        Sign,
        f"sign {FOLDER}/db.example.org {{\n key file {FOLDER}/Kexample.org\n directory {tmp_path}\n}}",
        zones=["example.org."],
    )
    finish(plugin.start(runtime))
    assert contents(target) == contents(FOLDER / "db.signed-by-coredns")
    began, anew = runtime.wall_time, 'Signing "example.org." because '
    for after, pattern, text, sentence in (
        (HOUR, "", "", 'Skipping signing zone "example.org." in "SIGNED": signatures are valid'),
        (6 * DAY, "", "", f"{anew}its signature begins at 2023-11-14T16:48:13Z, which is more than 6 days ago"),
        (0, "", "", f"{anew}its signature begins at 2023-11-20T16:48:13Z, which is in the future"),
        (DAY, r"(RRSIG SOA .*) \d{14} (\d{14})", r"\1 20231121000000 \2", f"{anew}its signature ends at 2023-11-21T00:00:00Z, in less than 7 days"),
        (0, "(?s).+", "@ 60 SOA ns h 1 2 3 4 5", f"{anew}SIGNED has no signature of the SOA record"),
        (0, "(?s).+", "@ 60 A 192.0.2.1", f"{anew}SIGNED has no SOA record of example.org."),
    ):  # fmt: skip
        caplog.clear()
        runtime.wall_time = began + after
        target.write_text(re.sub(pattern, text, target.read_text(), count=1))
        runtime.look()
        assert caplog.messages[0] == f"plugin/sign: {sentence.replace('SIGNED', str(target))}"
