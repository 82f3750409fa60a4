from __future__ import annotations

import os
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import pytest

from hsdns.cluster.address import address_of
from hsdns.plugins.hosts import Hosts, HostsTable
from hsdns.wire.message import Reply
from hsdns.wire.name import ROOT, Name
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")


@pytest.mark.parametrize(("line", "entries"), columns(TABLES, "hosts"))
def test_what_a_line_says(line: str, entries: str) -> None:
    assert len(HostsTable([line], [ROOT], reverse=True)) == int(entries)


@pytest.mark.parametrize(("qname", "address"), columns(TABLES, "reverse names"))
def test_reverse_names(qname: str, address: str) -> None:
    packed = address_of(Name.from_text(qname))
    assert (str(ip_address(packed)) if packed else "None") == address


FILE = """\
# a comment
10.1.1.1 a.example.org A.Example.ORG.  # said twice
10.1.1.2\tb.example.org c.example.org
2001:db8::2 b.example.org
fe80::1%eth0 link.example.org
::ffff:10.2.2.2 mapped.example.org
10.3.3.3 *.wild.example.org
10.3.3.4 real.wild.example.org
2001:db8::5 six.wild.example.org
10.0.0.300 bad.example.org
10.4.4.4
10.5.5.5 under_score.example.org a..b
10.6.6.6 elsewhere.example.net
"""
BELOW = reply(["below. 1 IN A 192.0.2.1"])


@pytest.fixture
def hosts_file(tmp_path: Path) -> Path:
    path = tmp_path / "hosts"
    path.write_text(FILE)
    return path


def started(
    path: Path, arguments: str = "", body: str = "", zones: Sequence[str] = (".",)
) -> Hosts:
    text = f"hosts {path} {arguments}" + (f" {{\n{body}\n}}" if body else "")
    runtime = FakeRuntime()
    plugin = set_up(Hosts, text, zones)
    finish(plugin.start(runtime))
    return plugin


def ask(plugin: Hosts, qname: str, qtype: str = "A") -> Reply:
    return finish(plugin.handle(make_request(qname, qtype), next_with(BELOW)))


def samples(runtime: FakeRuntime) -> list[str]:
    lines = runtime.metrics.to_text().decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_entries_count_addresses_and_reverse_names(hosts_file: Path) -> None:
    runtime = FakeRuntime()
    plugin = set_up(Hosts, f"hosts {hosts_file} example.org {{\n reload 0s\n}}")
    finish(plugin.start(runtime))
    assert runtime.looks == []
    # 10 names with an address each and without those of example.net, the wildcard without a reverse name
    assert samples(runtime)[0] == f'coredns_hosts_entries{{hostsfile="{hosts_file}"}} 21.0'


def test_an_unchanged_file_is_not_read_again(hosts_file: Path) -> None:
    plugin = started(hosts_file)
    status = hosts_file.stat()
    hosts_file.write_text(FILE.replace("10.1.1.1", "10.1.1.9"))
    os.utime(hosts_file, ns=(status.st_atime_ns, status.st_mtime_ns))
    plugin.read()
    assert section(ask(plugin, "a.example.org.").answer)[0] == "a.example.org. 3600 IN A 10.1.1.1"


def test_the_file_is_read_with_the_corefile(hosts_file: Path) -> None:
    """A Corefile that is loaded again is read in a thread; plugins start on the event loop."""
    plugin, runtime = set_up(Hosts, f"hosts {hosts_file}"), FakeRuntime()
    hosts_file.unlink()
    finish(plugin.start(runtime))
    assert section(ask(plugin, "b.example.org.").answer) == ["b.example.org. 3600 IN A 10.1.1.2"]
    assert samples(runtime)[0].startswith(f'coredns_hosts_entries{{hostsfile="{hosts_file}"}}')


def test_a_file_that_goes_away_leaves_its_answers(hosts_file: Path) -> None:
    plugin = started(hosts_file)
    hosts_file.unlink()
    plugin.read()
    assert len(ask(plugin, "a.example.org.").answer) == 2


def test_a_symlink_that_is_swapped_is_noticed(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"data{number}").write_text(f"10.0.0.{number} a.\n")
        os.utime(tmp_path / f"data{number}", ns=(0, number))
    link = tmp_path / "hosts"
    link.symlink_to("data1")
    plugin = started(link)
    (tmp_path / "next").symlink_to("data2")
    (tmp_path / "next").rename(link)
    plugin.read()
    assert section(ask(plugin, "a.").answer) == ["a. 3600 IN A 10.0.0.2"]


def test_looks_after_each_period(hosts_file: Path) -> None:
    runtime = FakeRuntime()
    plugin = set_up(Hosts, f"hosts {hosts_file} {{\n reload 15s\n}}")
    finish(plugin.start(runtime))
    assert [seconds for seconds, _ in runtime.looks] == [15.0]
    runtime.look()
    assert runtime.names_answered_first_changes == 0
    hosts_file.write_text("10.7.7.7 new.example.org and.another\n")
    runtime.look()
    assert section(ask(plugin, "new.example.org.").answer) == [
        "new.example.org. 3600 IN A 10.7.7.7"
    ]
    assert runtime.names_answered_first_changes == 1


# --- what the fast path needs to know ---
