"""The kinds of pressure: the attackers, and the differences in the server's Corefile and process.

Path: __main__.py -> run.py -> here.
Rule 1: a row is the same for all servers; a row without an equivalent in CoreDNS says so (`peers`).
Rule 2: the titles are in rows.txt.
Rule 3: everything is bounded in time, number and rate, and stays on loopback.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from loadtest.dns import ZONE
from loadtest.figures import read_goals
from loadtest.pressure.attackers import ATTACKS
from loadtest.pressure.clients import BIG, SRV, Attack, Flood, OverTcp, Presser, doh_attack
from loadtest.pressure.hostile_yaml import FILES
from loadtest.pressure.server import Limits, Variation

BELOW_SERVICE: Final = Flood("existing", (f"*.web-1.team-0.svc.{ZONE}",), 20_000)
PODS: Final = Flood("pods", (f"#.team-0.pod.{ZONE}",), 20_000)
PODS_SRV: Final = replace(PODS, key="misses", qtype=SRV)
LOGGED: Final = Flood("logged", ("*.new.example",), 1_000)
UNANSWERED: Final = Flood("silent", ("*.silent.example",), 800)
ZONAL: Final = Flood("zonal", (f"*.prefer._zone.{BIG}",), 200)
PIN: Final = Flood("pin", (f"*.pin._zone.{BIG}",), 20_000)
BARE: Final = Flood("bare", ("*.bare.example",), 800)


class Row(NamedTuple):
    """A kind of pressure.

    `rewrite`: seconds between two changes of the Corefile, the first at once; 0 for none.  `files`: manifests of
    hostile_yaml.py, each read by a process, instead of a server under attack.
    """

    key: str
    title: str
    pressers: tuple[Presser, ...]
    variation: Variation = Variation()
    limits: Limits = Limits()
    rewrite: float = 0.0
    files: tuple[str, ...] = ()
    peers: bool = True


_TITLES: Final = dict(read_goals(Path(__file__).with_name("rows.txt"), 2))


def _row(key: str, *pressers: Presser, **more: Any) -> Row:
    return Row(key, _TITLES[key], pressers, **more)


ROWS: Final = (
    _row("existing", BELOW_SERVICE),
    _row("new-4k", Flood("new", ("*.new.example",), 4_000)),
    _row("new-12k", Flood("new", ("*.new.example",), 12_000)),
    _row("new-20k", Flood("new", ("*.new.example",), 20_000)),
    _row("fair", PODS),
    _row("misses", PODS_SRV),
    _row("unread", LOGGED, variation=Variation(log=True), limits=Limits(unread=True)),
    _row("descriptors", UNANSWERED, variation=Variation(unlimited=True), limits=Limits(descriptors="1024:20000")),
    *(_row(f"doh-{kind}", doh_attack(kind), variation=Variation(doh=True)) for kind in ATTACKS),
    _row("large", OverTcp("large.example", 20)),
    _row("beside-large", Flood("new", ("*.new.example",), 100), OverTcp("large.example", 20)),
    _row("zonal", ZONAL, variation=Variation(zonal=True), peers=False),
    _row("zonal-pin", PIN, variation=Variation(zonal=True)),
    _row("corefile", variation=Variation(bulk=1_100_000, interval="2s"), rewrite=4.0),
    _row("silent", Attack("silent", 4_000)),
    _row("http-head", Attack("head")),
    _row("http-heads", Attack("head", clients=20)),
    _row("http-bad", Attack("bad", 400, 8)),
    _row("http-streams", Attack("streams", 5, 40), variation=Variation(dashboard=True), peers=False),
    _row("explained", Attack("explain", 2), variation=Variation(dashboard=True), peers=False),
    _row("bare", BARE, variation=Variation(debug=True)),
    _row("yaml", files=tuple(FILES), peers=False),
)  # fmt: skip
BY_KEY: Final = {row.key: row for row in ROWS}
