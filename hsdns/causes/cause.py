"""A cause: the sentence that every tool prints for it, and the line what to do.

Path: behind.py, failing.py -> here -> explanation/report.py, doctor/, lint/, the page, top, wait, EDE.
Rule 1: a sentence is worded in one place: here, in causes/, or in the rule that it is.
Rule 2: `todo` is one line: a command that changes it, the field and its value, or the next command that tells more.
"""

from __future__ import annotations

from typing import NamedTuple


class Cause(NamedTuple):
    """Why a name fails; `code` is the rule that tells the same, "" if none does.

    `place` is the object to change, such as "Deployment shop/web", or the Corefile; `since` a time in RFC 3339, ""
    if it is not known.
    """

    code: str
    place: str
    sentence: str
    todo: str
    since: str = ""
