"""The measured values that limits apply to, for some seconds of a run and for its lookups.

Path: results.py, lookup_report.py -> here -> thresholds.py; report.py, abort.py and cli/load_knee.py call it.
"""

from __future__ import annotations

from hsdns.load.figures import PERCENTS, Figure, all_sent, latency_figures, lateness_figures
from hsdns.load.judge import VERDICTS
from hsdns.load.lookup_report import LookupsReport
from hsdns.load.lookups import FAILED, UNFINISHED
from hsdns.load.results import Second
from hsdns.load.thresholds import Measured
from hsdns.wire.iana import Rcode


def measured_of(found: Second) -> Measured:
    """The values of some seconds, added up."""
    lateness = lateness_figures(found.lateness)
    refused = not all_sent(found.sent, found.not_sent)
    latency = latency_figures(found.latency, found.lost, found.lateness, refused=refused)
    return Measured(limit_counts(found), latency, lateness)


def limit_counts(whole: Second) -> dict[str, tuple[int, int]]:
    """The counts that limits can apply to, each with the number that it is a share of."""
    judged = whole.verdicts.total()
    rcodes, answered = whole.rcodes, whole.answered
    bad = sum(count for rcode, count in rcodes.items() if rcode not in (Rcode.NOERROR, Rcode.NXDOMAIN))  # fmt: skip
    found = {
        "loss": (whole.lost, whole.sent),
        "errors": (bad, answered),
        "servfail": (rcodes[Rcode.SERVFAIL], answered),
        "refused": (rcodes[Rcode.REFUSED], answered),
        "nxdomain": (rcodes[Rcode.NXDOMAIN], answered),
        "truncated": (whole.truncated, answered),
    }
    return found | {word: (whole.verdicts[word], judged) for word in VERDICTS}


def with_lookups(measured: Measured, lookups: LookupsReport | None) -> Measured:
    """The values, with those of the lookups of pods added."""
    ends = {} if lookups is None else lookups.whole.ends
    latency = [] if lookups is None else lookups.whole.latency
    counts = {
        f"lookup.{end}": (ends.get(end, 0), sum(ends.values())) for end in (FAILED, UNFINISHED)
    }
    figures = [
        Figure(percent, each.us, each.why) for percent, each in zip(PERCENTS, latency, strict=False)
    ]
    return measured._replace(counts={**measured.counts, **counts}, lookups=figures)
