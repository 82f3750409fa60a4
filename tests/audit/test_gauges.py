"""What an audit that goes on tells Prometheus."""

from __future__ import annotations

from hsdns.audit.report import Gauges
from hsdns.audit.run import Result
from hsdns.load.verify.judge import RIGHT, STALE
from tests.audit.test_report import FINE, Given, report

STALE_ONE = Result(STALE, 3.0, 0.25, 0, 5)


def lines(gauges: Gauges) -> set[str]:
    text = gauges.registry.to_text().decode()
    return {line for line in text.splitlines() if not line.startswith("#")}


def test_values_are_those_of_the_last_pass() -> None:
    gauges = Gauges()
    gauges.update([report(Given([FINE, STALE_ONE, FINE]))], 1000.0)
    labels = 'cluster="test",server="10.96.0.10"'
    assert {
        'hsdns_audit_names{cluster="test"} 3.0',
        f'hsdns_audit_answers{{{labels},verdict="right"}} 2.0',
        f'hsdns_audit_answers{{{labels},verdict="stale"}} 1.0',
        f"hsdns_audit_worst_age_seconds{{{labels}}} 3.0",
        "hsdns_audit_last_pass_timestamp_seconds 1000.0",
    } <= lines(gauges)
    quantiles = [line for line in lines(gauges) if "latency" in line and 'quantile="1"' in line]
    assert [round(float(line.split()[-1]), 2) for line in quantiles] == [0.25]
    gauges.update([report(Given([FINE, FINE._replace(word=RIGHT), FINE]))], 1010.0)
    assert not any("stale" in line for line in lines(gauges))
    assert f"hsdns_audit_worst_age_seconds{{{labels}}} 0.0" in lines(gauges)


def test_passes_that_failed() -> None:
    gauges = Gauges()
    gauges.failed()
    assert "hsdns_audit_failures_total 1.0" in lines(gauges)
