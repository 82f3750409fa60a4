"""Draws docs/audit.png: the page of an audit of two servers, of which one is five seconds behind.

    make pictures

Path: hsdns serve (two, one with a fault), hsdns audit -> its page in a headless Chromium -> docs/audit.md.
Rule: nothing on the picture is typed in by hand: it is the report of a run that is made here.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from docs.pictures.load import clipped
from loadtest.ports import free_port
from tests.support.browser.chromium import PROGRAM, tab

TARGET: Final = Path(__file__).resolve().parents[1] / "audit.png"
NAMES: Final = ("new", "lagging")
SERVICES: Final = 24
EVERY: Final = 2.0  # seconds between two changes
LONGEST: Final = 60.0  # seconds
FINDINGS: Final = 4  # that are on the picture, of the second server
END: Final = (
    "[...document.querySelectorAll('section')].at(-1)"
    f".querySelectorAll('li')[{FINDINGS}].getBoundingClientRect().bottom + 12"
)
HSDNS: Final = (sys.executable, "-m", "hsdns")


def manifests(changes: int) -> str:
    """Headless Services after some changes, each of which gives a third of them another address."""
    return "---\n".join(
        f"""apiVersion: v1
kind: Service
metadata: {{name: web-{number}, namespace: shop}}
spec: {{clusterIP: None, ports: [{{name: http, port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: web-{number}-x, namespace: shop, labels: {{kubernetes.io/service-name: web-{number}}}}}
addressType: IPv4
ports: [{{name: http, port: 80}}]
endpoints: [{{addresses: ["10.0.{number}.1"]}}, {{addresses: ["10.1.{number}.{(changes + number) // 3}"]}}]
"""
        for number in range(SERVICES)
    )


@contextmanager
def servers(folder: Path, lab: Path) -> Iterator[list[str]]:
    """Two servers, as words for -server; the second one is behind."""
    started: list[subprocess.Popen[bytes]] = []
    words: list[str] = []
    try:
        for name in NAMES:
            port, control = free_port(), str(folder / name)
            words.append(f"{name}=127.0.0.1:{port}")
            serve = [*HSDNS, "serve", "-quiet", "-p", str(port), "-control", control]
            started.append(subprocess.Popen([*serve, "-source", "manifests", str(lab)]))
            at = ("-server", "127.0.0.1", "-p", str(port), "-timeout", "30s")
            _run("wait", "web-0.shop.svc.cluster.local", *at)
        _run("fault", "add", "lag", "5s", "-control", str(folder / NAMES[1]))
        yield words
    finally:
        for each in started:
            each.terminate()
        for each in started:
            each.wait()


def report(folder: Path) -> Path:
    """The page of the audit; raise AssertionError if it is not what is expected."""
    lab, page = folder / "shop.yaml", folder / "audit.html"
    lab.write_text(manifests(0))
    with servers(folder, lab) as words:
        of = ("-source", "manifests", str(lab), "-rate", "12", "-absent", "10", "-html", str(page))
        running = subprocess.Popen(
            [*HSDNS, "audit", "-server", *words, *of], stdout=subprocess.PIPE, text=True
        )
        end, changes = time.monotonic() + LONGEST, 0
        while running.poll() is None and time.monotonic() < end:
            time.sleep(EVERY)
            changes += 1
            lab.with_suffix(".new").write_text(manifests(changes))
            lab.with_suffix(".new").replace(lab)
        told, _ = running.communicate(timeout=LONGEST)
    assert running.returncode == 1, told
    assert "behind by" in told.partition(NAMES[1])[2], told
    # Where it was written is of no interest.
    page.write_text(page.read_text().replace(str(lab), lab.name))
    return page


def _run(*words: str) -> None:
    subprocess.run([*HSDNS, *words], check=True, stdout=subprocess.DEVNULL)


async def draw(page: Path) -> bytes:
    """The page down to the first findings of the server that is behind, as PNG."""
    async with tab() as opened:
        return await clipped(opened, page, END)


def main() -> None:
    """Draw the picture."""
    if PROGRAM is None:
        sys.exit(
            "docs/pictures/audit.py: chromium is not installed, so docs/audit.png stays as it is"
        )
    with tempfile.TemporaryDirectory(prefix="hsdns-") as folder:
        TARGET.write_bytes(asyncio.run(draw(report(Path(folder)))))


if __name__ == "__main__":
    main()
