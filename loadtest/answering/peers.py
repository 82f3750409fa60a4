"""Minimal configurations of the other servers for the same names, with one thread.

Path: servers.py -> here.
Rule 1: everything unnecessary is off: no control socket, no pid file, no change of user, no rate limit.
Rule 2: they serve the zone file of cluster.py; CoreDNS and hsdns share one Corefile instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from loadtest.answering.cluster import ZONE


class Location(NamedTuple):
    """Where a server runs.  `backend` is the port of the server behind a proxy."""

    folder: Path
    port: int
    zone_file: Path
    backend: int = 0


KNOT = """\
server:
    rundir: {folder}
    listen: 127.0.0.1@{port}
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
database:
    storage: {folder}
log:
  - target: stderr
    any: warning
zone:
  - domain: {zone}
    file: {zone_file}
    zonefile-sync: -1
    journal-content: none
"""

NSD = """\
server:
    ip-address: 127.0.0.1@{port}
    server-count: 1
    username: ""
    chroot: ""
    zonesdir: {folder}
    database: ""
    zonelistfile: {folder}/zone.list
    xfrdfile: {folder}/xfrd.state
    xfrdir: {folder}
    pidfile: {folder}/nsd.pid
    rrl-ratelimit: 0
    verbosity: 0
remote-control:
    control-enable: no
zone:
    name: {zone}
    zonefile: {zone_file}
"""

UNBOUND = """\
server:
    interface: 127.0.0.1@{port}
    access-control: 127.0.0.0/8 allow
    num-threads: 1
    incoming-num-tcp: 100
    do-daemonize: no
    use-syslog: no
    username: ""
    chroot: ""
    directory: {folder}
    pidfile: ""
    so-rcvbuf: 4m
    module-config: "iterator"
remote-control:
    control-enable: no
auth-zone:
    name: {zone}
    zonefile: {zone_file}
    for-downstream: yes
    for-upstream: no
"""

DNSDIST = """\
setSecurityPollSuffix("")
setLocal("127.0.0.1:{port}", {{maxInFlight=100}})
setACL({{"127.0.0.0/8"}})
newServer({{address="127.0.0.1:{backend}", healthCheckMode="up", maxInFlight=100}})
getPool(""):setCache(newPacketCache(200000, {{maxTTL=3600}}))
"""


def write(template: str, location: Location) -> Path:
    """Fill in a template, write it into the folder of the server, and return its path."""
    path = location.folder / "configuration"
    path.write_text(
        template.format(
            folder=location.folder,
            port=location.port,
            zone=ZONE,
            zone_file=location.zone_file,
            backend=location.backend,
        )
    )
    return path
