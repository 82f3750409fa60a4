from __future__ import annotations

from hsdns.gotemplate.functions import Record
from hsdns.plugins.template import Hit, read_rule
from tests.support.plugins.requests import make_request
from tests.support.plugins.setup import directives, make_block


def test_data() -> None:
    text = "template ANY ANY {\n match (?P<n>[0-9]+)(x)?[.](?P<zone>.*)\n var num int(group('n')) + 1\n var whole group(0)\n}"
    rule = read_rule(directives(text)[0], make_block(["example.org."]))
    request = make_request("Web-7.Example.org.", "AAAA", client="fe80::1%eth0")
    found = rule.match(request.replace(metadata={"a/b": lambda: "x"}))
    assert isinstance(found, Hit)
    fields = dict(found.data.fields)
    meta = fields.pop("Meta")
    question, message = fields.pop("Question"), fields.pop("Message")
    assert fields == {
        "Zone": "example.org.",
        "Name": "web-7.example.org.",
        "Regex": "(?P<n>[0-9]+)(x)?[.](?P<zone>.*)",
        "Match": ["7.example.org.", "7", "", "example.org."],
        "Group": {
            "0": "7.example.org.",
            "1": "7",
            "2": "",
            "3": "example.org.",
            "n": "7",
            "zone": "example.org.",
        },
        "Class": "IN",
        "Type": "AAAA",
        "Remote": "fe80::1",
        "Var": {"num": 8, "whole": "7.example.org."},
    }
    assert question.fields == {"Name": "Web-7.Example.org.", "Qtype": 28, "Qclass": 1}
    assert isinstance(message, Record)
    assert (message.fields["Id"], message.fields["RecursionDesired"]) == (4711, True)
    assert message.fields["Question"] == [question]
    assert (meta.call("a/b"), meta.call("a/c")) == ("x", "")
    assert (found.zone, found.rrclass, found.rrtype) == ("example.org.", "IN", "AAAA")
