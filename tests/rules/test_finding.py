"""A finding in words."""

from hsdns.corefile.tree import Position
from hsdns.rules.rule import Finding, Remark, Rule

RULE = Rule("HS900", "wrong-thing", "A thing is wrong", "note", "")
AT = Position("a.yaml", 3, 7)


def test_a_finding_says_where_what_and_of_which_rule() -> None:
    finding = Finding(
        RULE, "error", Remark(AT, "Service shop/db", "spec.type", "it is wrong; correct it")
    )
    assert (
        str(finding)
        == "a.yaml:3:7: error HS900 Service shop/db: spec.type: it is wrong; correct it"
    )


def test_an_object_and_a_field_may_be_missing() -> None:
    assert str(Finding(RULE, "note", Remark(AT, "", "", "wrong"))) == "a.yaml:3:7: note HS900 wrong"
