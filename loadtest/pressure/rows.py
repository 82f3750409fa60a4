"""The kinds of pressure: the attackers, and the differences in the server's Corefile and process.

Path: __main__.py -> run.py -> here.
Rule 1: a row is the same for all servers; a row without an equivalent in CoreDNS says so (`peers`).
Rule 2: everything is bounded in time, number and rate, and stays on loopback.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from loadtest.dns import ZONE
from loadtest.pressure.clients import BIG, SRV, Attack, Flood, OverTcp, Presser, doh_attack
from loadtest.pressure.hostile_yaml import FILES
from loadtest.pressure.http2 import ATTACKS
from loadtest.pressure.server import Limits, Variation

BELOW_SERVICE: Final = Flood("existing", (f"*.web-1.team-0.svc.{ZONE}",), 20_000)
PODS: Final = Flood("pods", (f"#.team-0.pod.{ZONE}",), 20_000)
PODS_SRV: Final = replace(PODS, key="misses", qtype=SRV)
LOGGED: Final = Flood("logged", ("*.new.example",), 1_000)
UNANSWERED: Final = Flood("silent", ("*.silent.example",), 800)
ZONAL: Final = Flood("zonal", (f"*.prefer._zone.{BIG}",), 200)
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


_DOH_TITLES: Final = {
    "reset": "4 DoH clients, each 1,000 requests a second that it takes back at once",
    "requests": "4 DoH clients, each 1,000 requests a second, 50 in a write",
    "ping": "4 DoH clients, each 10,000 PING frames a second",
    "settings": "4 DoH clients, each 10,000 SETTINGS frames a second",
    "paths": "4 DoH clients, each 50 requests a second with a path of 60 KB",
    "empty": "4 DoH clients, each 10,000 empty DATA frames a second",
    "continuation": "4 DoH clients, each 10,000 CONTINUATION frames a second, without end",
    "hpack": "4 DoH clients, each 50 requests a second whose header blocks of 15 KB expand to 60 MB",
}
ROWS: Final = (
    Row("existing", "20,000 random names a second below an existing Service", (BELOW_SERVICE,)),
    Row("new-4k", "4,000 new external names a second", (Flood("new", ("*.new.example",), 4_000),)),
    Row("new-12k", "12,000 new external names a second", (Flood("new", ("*.new.example",), 12_000),)),
    Row(
        "fair",
        "one client with 20,000 made-up names of Pods a second; an honest one asks for 100 others",
        (PODS,),
    ),
    Row(
        "misses",
        "the same with SRV queries, which the answer table of hsdns leaves to the chain",
        (PODS_SRV,),
    ),
    Row(
        "unread",
        "standard output is a pipe that nobody reads; 1,000 logged queries a second for new names",
        (LOGGED,),
        Variation(log=True),
        Limits(unread=True),
    ),
    Row(
        "descriptors",
        "1,024 open files (hard limit 20,000), no max_concurrent; 800 names a second that the upstream does not answer",
        (UNANSWERED,),
        Variation(unlimited=True),
        Limits(descriptors="1024:20000"),
    ),
    *(
        Row(f"doh-{kind}", _DOH_TITLES[kind], (doh_attack(kind),), Variation(doh=True))
        for kind in ATTACKS
    ),
    Row("large", "20 new answers of 64 KB a second, over TCP", (OverTcp("large.example", 20),)),
    Row(
        "zonal",
        "200 made-up topology zones a second of a Service with 1,000 endpoints",
        (ZONAL,),
        Variation(zonal=True),
        peers=False,
    ),
    Row(
        "corefile",
        "a Corefile of 1.1 MB that is read every 2 s and changes every 4 s",
        (),
        Variation(bulk=1_100_000, interval="2s"),
        rewrite=4.0,
    ),
    Row("silent", "4,000 silent connections a second to the port of /health", (Attack("silent", 4_000),)),
    Row("http-head", "a client sends HTTP header lines without end to the port of /health", (Attack("head"),)),
    Row("http-heads", "20 such clients", (Attack("head", clients=20),)),
    Row("http-bad", "400 HTTP requests a second that are not valid", (Attack("bad", 400, 8),)),
    Row(
        "http-streams",
        "40 event streams of one client; an honest one opens the dashboard and its stream, again and again",
        (Attack("streams", 5, 40),),
        Variation(dashboard=True),
        peers=False,
    ),
    Row(
        "bare",
        "800 replies a second from the upstream with a record of class ANY without RDATA, with `debug`",
        (BARE,),
        Variation(debug=True),
    ),
    Row(
        "yaml",
        "hostile manifests of 1 MB, each read or refused; CPU time and memory of the worst",
        (),
        files=tuple(FILES),
        peers=False,
    ),
)  # fmt: skip
BY_KEY: Final = {row.key: row for row in ROWS}
