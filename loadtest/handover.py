"""Replaces one hsdns by another at the same address while clients look names up, and counts the lookups that fail.

    python -m loadtest.handover [LOOKUPS] [--by-hand | --alone]

Path: itself in a network namespace -> the Corefile, arguments and readiness check of deploy/overlays/node-local, with
manifests as the source -> one line of figures.
Rule 1: each lookup is one datagram from a port of its own, which the kernel gives to either process; no second try.
Rule 2: as the DaemonSet's rollout does it, the first server is told to stop once the second is ready; with --by-hand it
        is told first, as by `kubectl delete pod`; with --alone the second starts when the first has ended.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from math import inf
from pathlib import Path
from typing import Final

import dns.asyncquery
import dns.exception
import dns.message
import yaml

OVERLAY: Final = Path(__file__).parents[1] / "deploy/overlays/node-local"
ADDRESS: Final = "169.254.20.10"
HSDNS: Final = [sys.executable, "-m", "hsdns"]
INSIDE: Final = "HSDNS_HANDOVER"  # set in the namespace
RATE: Final = 500  # lookups a second
PATIENCE: Final = 5.0  # seconds for a reply, as glibc waits
SERVICE: Final = """
apiVersion: v1
kind: Service
metadata: {name: kubernetes, namespace: default}
spec: {clusterIP: 10.96.0.1, ports: [{port: 443}]}
"""


class Pod:
    """A server of the DaemonSet, with a folder of its own for its control socket."""

    def __init__(self, folder: Path, name: str, *, alone: bool) -> None:
        (folder / name).mkdir(mode=0o700)
        manifest = yaml.safe_load((OVERLAY / "daemonset.yaml").read_text())
        (container,) = manifest["spec"]["template"]["spec"]["containers"]
        places = {
            "/etc/coredns/Corefile": f"{folder}/Corefile",
            "/run/hsdns/control.sock": f"{folder}/{name}/control.sock",
            "/coredns": "",
        }
        words, probe = (
            [*filter(None, (places.get(word, word) for word in words))]
            for words in (container["args"], container["readinessProbe"]["exec"]["command"])
        )
        self._probe = [*HSDNS, *probe]
        own = [word for word in words if word != "--reuseport" or not alone]
        self.began = time.monotonic()
        self.process = subprocess.Popen([*HSDNS, *own, "--quiet"], stdout=subprocess.DEVNULL)

    async def ready(self) -> float:
        """Check as the kubelet does until it succeeds; the seconds since the start."""
        while True:
            probe = await asyncio.create_subprocess_exec(*self._probe, stdout=-3, stderr=-3)
            if not await probe.wait():
                return time.monotonic() - self.began
            if self.process.poll() is not None:
                raise RuntimeError("the server has ended")

    async def end(self) -> None:
        """Tell it to stop, and wait."""
        self.process.send_signal(signal.SIGTERM)
        assert not await asyncio.to_thread(self.process.wait)


async def lookup() -> float:
    """The latency of one lookup in seconds; infinite if it fails."""
    began = time.monotonic()
    query = dns.message.make_query("kubernetes.default.svc.cluster.local", "A")
    try:
        reply = await dns.asyncquery.udp(query, ADDRESS, PATIENCE)
    except (dns.exception.DNSException, OSError):
        return inf
    return time.monotonic() - began if len(reply.answer) == 1 else inf


async def replace(folder: Path, lookups: int, how: str) -> str:
    """Replace a server while lookups go on, at least `lookups`; the figures as a line."""
    old = Pod(folder, "old", alone=how == "alone")
    began = old.began + await old.ready()
    asked: list[asyncio.Task[float]] = []

    async def ask() -> None:
        while True:
            asked.append(asyncio.create_task(lookup()))
            await asyncio.sleep(began + len(asked) / RATE - time.monotonic())

    asking = asyncio.create_task(ask())
    await asyncio.sleep(1)
    ending = asyncio.create_task(old.end()) if how != "rollout" else None
    if how == "alone" and ending is not None:
        await ending
    new = Pod(folder, "new", alone=how == "alone")
    start = await new.ready()
    await (ending or old.end())
    await asyncio.sleep(1 + max(0, lookups - len(asked)) / RATE)
    asking.cancel()
    found = [await each for each in asked]
    await new.end()
    answered = [each for each in found if each != inf]
    return (
        f"{how}: {len(found) - len(answered)} of {len(found)} lookups failed; "
        f"the slowest took {max(answered) * 1000:.0f} ms, "
        f"the new server was ready after {start:.1f} s"
    )


def main() -> int:
    """Make the namespace, or work in it; 1 if a lookup failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("lookups", nargs="?", type=int, default=10_000)
    parser.add_argument("--by-hand", dest="how", action="store_const", const="by hand")
    parser.add_argument("--alone", dest="how", action="store_const", const="alone")
    given = parser.parse_args()
    if INSIDE not in os.environ:
        command = ["unshare", "-Urn", "--kill-child", "--fork", *sys.orig_argv]
        return subprocess.run(command, env={**os.environ, INSIDE: "1"}, check=False).returncode
    # An interface of another kind: the module `dummy` may be missing where this runs.
    for words in (
        "link set lo up",
        "link add hsdns type veth peer name other",
        f"addr add {ADDRESS}/32 dev hsdns",
        "link set hsdns addrgenmode none up",
        "link set other up",
    ):
        subprocess.run(["ip", *words.split()], check=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "service.yaml").write_text(SERVICE)
        text = yaml.safe_load((OVERLAY / "configmap.yaml").read_text())["data"]["Corefile"]
        text = text.replace(
            "pods insecure\n", f"pods insecure\nsource manifests {name}/service.yaml\n"
        )
        (folder / "Corefile").write_text(text.replace("/etc/resolv.conf", "192.0.2.1"))
        line = asyncio.run(replace(folder, given.lookups, given.how or "rollout"))
    print(line)
    return int(": 0 of" not in line)


if __name__ == "__main__":
    sys.exit(main())
