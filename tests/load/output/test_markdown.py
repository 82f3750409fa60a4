import msgspec

from hsdns.load.output.markdown import markdown
from tests.load.test_report import report, results

SUMMARY = """\
### Load on 127.0.0.1 port 53

100/s for 2 s, even, over UDP: 2 questions

**Not whole:** interrupted after 2.0 s

| limit |  | measured | server |
| --- | --- | --- | --- |
| stale\\>0 | FAILED | 10 \\(5.000%\\) | 127.0.0.1 port 53 |
| p50\\>1s | held | 1.00 ms | 127.0.0.1 port 53 |

|  | 127.0.0.1 port 53 |
| --- | --- |
| not whole | interrupted |
| answered | 198 |
| lost | 2 \\(1.000%\\) |
"""


def test_summary() -> None:
    found = markdown(report(results(lost=2, stale=True), "stale>0,p50>1s", "interrupted"))
    assert found[: len(SUMMARY)] == SUMMARY


def test_several_servers_are_columns() -> None:
    found = markdown(report(results(), "stale>0", "", frozen=results(stale=True)))
    assert "| stale\\>0 | held | 0 | 127.0.0.1 port 53 |\n" in found
    assert "| stale\\>0 | FAILED | 10 \\(5.000%\\) | frozen |\n" in found
    assert "|  | 127.0.0.1 port 53 | frozen |\n| --- | --- | --- |\n" in found


def test_what_was_left_out() -> None:
    found = markdown(report(results(late=5), "p50>1s"))
    assert "**Left out:** the generator was the limit" in found
    assert "| p50\\>1s | unknown | could not be told |" in found


def test_names_are_only_text() -> None:
    whole = report(results())
    plan = msgspec.structs.replace(whole.plan, what="<script> | `x` [a](b)\n# c")
    found = markdown(msgspec.structs.replace(whole, plan=plan))
    assert "\\<script\\> \\| \\`x\\` \\[a\\]\\(b\\)\\\\n\\# c" in found
