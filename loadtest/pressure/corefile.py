"""The Corefile of a server under pressure: kubeadm's (loadtest/server.py), with additions for a row.

Path: server.py -> here; soak.py and run.py write it again while the server runs.
"""

from __future__ import annotations

from typing import NamedTuple

from loadtest.programs import CertificateFiles
from loadtest.server import Ports

ZONE_OCTETS = 473  # octets of another server block, roughly
_HOSTS = 10  # lines in it


class Variation(NamedTuple):
    """The differences from kubeadm's Corefile.

    `bulk`: octets of server blocks for other zones; `interval`: of `reload`.
    """

    log: bool = False
    doh: bool = False  # and DNS over TLS
    zonal: bool = False
    debug: bool = False
    unlimited: bool = False  # `forward` without max_concurrent
    dashboard: bool = False  # at the address of `health`
    bulk: int = 0
    interval: str = ""


def corefile(
    ports: Ports, access: str, variation: Variation, files: CertificateFiles, serial: int = 0
) -> str:
    """Write the Corefile; each serial gives another configuration."""
    text = ports.corefile(access)
    if variation.doh:
        text = _replaced(
            text, f".:{ports.dns} {{", f".:{ports.dns} https://.:{ports.doh} tls://.:{ports.dot} {{"
        )
        text = _replaced(
            text, "    errors\n", f"    errors\n    tls {files.certificate} {files.key}\n"
        )
    if variation.log:
        text = _replaced(text, "    errors\n", "    errors\n    log\n")
    if variation.debug:
        text = _replaced(text, "    errors\n", "    errors\n    debug\n")
    if variation.dashboard:
        dashboard = f"    dashboard 127.0.0.1:{ports.health}\n"
        text = _replaced(text, "    errors\n", f"    errors\n{dashboard}")
    if variation.zonal:
        text = _replaced(text, "        pods insecure\n", "        pods insecure\n        zonal\n")
    if variation.unlimited:
        text = _replaced(text, " {\n        max_concurrent 1000\n    }\n", "\n")
    if variation.interval:
        text = _replaced(text, "    reload\n", f"    reload {variation.interval} 1s\n")
    blocks = [_block(ports, number, serial) for number in range(variation.bulk // ZONE_OCTETS)]
    return text + "".join(blocks)


def _replaced(text: str, old: str, new: str) -> str:
    if text.count(old) != 1:
        raise ValueError(f"the Corefile of the benchmarks has no {old!r}")
    return text.replace(old, new)


def _block(ports: Ports, number: int, serial: int) -> str:
    hosts = "".join(
        f"        192.0.2.{line + 1} host-{line}-{serial}.zone-{number}.test\n"
        for line in range(_HOSTS)
    )
    return (
        f"zone-{number}.test:{ports.dns} {{\n    bind 127.0.0.1\n    hosts {{\n{hosts}    }}\n}}\n"
    )
