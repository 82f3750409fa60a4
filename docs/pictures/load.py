"""Draws docs/load.png: the page of a load test of several servers, one frozen; with CoreDNS if HSDNS_PEER names it.

    make pictures

Path: loadtest/demo.py -> its page in a headless Chromium -> docs/load.md.
Rule: nothing on the picture is typed in by hand: it is the report of a run that is made here.
"""

from __future__ import annotations

import asyncio
import base64
import sys
import tempfile
from pathlib import Path
from typing import Final

from loadtest.demo import run
from tests.support.browser.chromium import PROGRAM, Tab, tab

ROOT: Final = Path(__file__).resolve().parents[2]
TARGET: Final = ROOT / "docs" / "load.png"
WIDTH: Final = 860
END: Final = "document.querySelector('section:has(figure)').getBoundingClientRect().bottom + 12"


def report(folder: Path, seconds: int = 20) -> Path:
    """The page of a run of so many seconds; raise AssertionError if it is not what is expected."""
    for line, is_good in run(folder, "500..2000", seconds, 30):
        assert is_good, line
    return folder / "report.html"


async def draw(page: Path) -> bytes:
    """The page down to the plots of all servers together, as PNG."""
    async with tab() as opened:
        return await picture(opened, page)


async def picture(opened: Tab, page: Path) -> bytes:
    """The same, in a browser that runs."""
    return await clipped(opened, page, END)


async def clipped(opened: Tab, page: Path, end: str) -> bytes:
    """A page down to where an expression of JavaScript says, as PNG; it loads nothing from elsewhere."""
    await opened.show(WIDTH)
    await opened.open(page.as_uri())
    height = await opened.value(end)
    assert opened.complaints == []
    assert [url for url in opened.asked if not url.startswith("file:")] == []
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
    taken = await opened.command("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
    return base64.b64decode(taken["data"])


def main() -> None:
    """Draw the picture."""
    if PROGRAM is None:
        sys.exit(
            "docs/pictures/load.py: chromium is not installed, so docs/load.png stays as it is"
        )
    with tempfile.TemporaryDirectory(prefix="hsdns-") as folder:
        TARGET.write_bytes(asyncio.run(draw(report(Path(folder)))))


if __name__ == "__main__":
    main()
