"""Makes code in the text what it is in the source: flags stay whole, and a bar in a table has no backslash.

Path: mkdocs.yml -> here -> docs/site.css.
Rule: a browser breaks a line after the dashes of a flag, unless it is marked.  Other readers of Markdown need a
      backslash before a bar in a table; this one shows it.
"""

from __future__ import annotations

import re
from typing import Any

CODE = re.compile(r"(?<!</span>)<code>[^<]*</code>")  # in the text; that of a block follows a span
FLAG = re.compile(r"(?<![^\s>\[(|/])--?\w[\w-]*")


def _shown(code: re.Match[str]) -> str:
    return FLAG.sub(r'<span class="flag">\g<0></span>', code[0].replace(r"\|", "|"))


def on_page_content(html: str, **_: Any) -> str:
    """Mark the flags, and remove the backslashes."""
    return CODE.sub(_shown, html)
