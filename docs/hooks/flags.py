"""Marks the flags in the text, which a browser would otherwise break after their dashes.

Path: mkdocs.yml -> here -> docs/site.css.
"""

from __future__ import annotations

import re
from typing import Any

CODE = re.compile(r"(?<!</span>)<code>[^<]*</code>")  # in the text; that of a block follows a span
FLAG = re.compile(r"(?<![^\s>\[(|/])--?\w[\w-]*")


def on_page_content(html: str, **_: Any) -> str:
    """A span around each flag."""
    return CODE.sub(lambda code: FLAG.sub(r'<span class="flag">\g<0></span>', code[0]), html)
