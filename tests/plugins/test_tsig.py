"""Tests of the plugin; tests/wire/test_tsig.py tests the record."""

from __future__ import annotations

from pathlib import Path

import dns.message
import dns.tsigkeyring
import pytest

from hsdns.chain import Request
from hsdns.plugins.tsig import Tsig
from hsdns.wire.decode import decode
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply
from hsdns.wire.tsig import ReplySigner
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up, setup_error
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")

SECRET = "X28hl0BOfAL5G0jsmJWSacrwn7YRm2f6U5brnzwWEus="
BELOW = reply(["below. 1 IN A 192.0.2.1"])
KEY_LINE = f"secret key.example. {SECRET}"


def started(body: str, zones: str = "") -> Tsig:
    plugin = set_up(Tsig, f"tsig {zones} {{\n{KEY_LINE}\n{body}\n}}", ["example.org."])
    finish(plugin.start(FakeRuntime()))
    return plugin


def signed(
    monkeypatch: pytest.MonkeyPatch, qname: str = "www.example.org.", key: str = "key.example."
) -> Request:
    monkeypatch.setattr("time.time", lambda: FakeRuntime().wall_time)
    message = dns.message.make_query(qname, "A")
    message.use_tsig(dns.tsigkeyring.from_text({key: SECRET}), key)
    return make_request(qname).replace(query=decode(message.to_wire()))


def test_a_dropped_reply_is_not_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = finish(started("").handle(signed(monkeypatch), next_with(Reply(dropped=True))))
    assert found == Reply(dropped=True)


def test_a_wrong_signature_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    below = next_with(BELOW)
    found = finish(started("").handle(signed(monkeypatch, key="other."), below))
    assert found.replace(sign=None) == Reply(rcode=Rcode.NOTAUTH)
    assert isinstance(found.sign, ReplySigner)
    assert below.requests == []


def test_another_zone_is_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    request = signed(monkeypatch, "www.example.net.", key="other.")
    assert finish(started("", "example.org").handle(request, next_with(BELOW))) is BELOW


def test_malformed_record(monkeypatch: pytest.MonkeyPatch) -> None:
    request = signed(monkeypatch)
    whole = request.query.whole
    broken = request.replace(query=request.query.replace(whole=whole[:-30]))
    found = finish(started("").handle(broken, next_with(BELOW)))
    assert found.rcode == Rcode.FORMERR
    assert found.error is not None
    assert found.error.startswith("malformed TSIG record: ")


FILES = {
    "lines": 'key "a.example." {\n    algorithm hmac-sha256;\n    secret "{}";\n};\n\nkey b.example {\n secret {};\n}\n',
    "one-line": 'key "a.example." {{ secret "{}"; }}; key b.example. {{ algorithm hmac-sha256; secret {}; }};',
    "comments": '# one\nkey a.example { // two\n /* three */ secret "{}"; };\nkey "b.example." { secret "{}"; };',
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_secrets(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys"
    path.write_text(FILES[name].replace("{{", "{").replace("}}", "}").replace("{}", SECRET))
    plugin = started(f"secrets {path}")
    for key in ("a.example.", "B.example.", "key.example."):
        found = finish(plugin.handle(signed(monkeypatch, key=key), next_with(BELOW)))
        assert found.rcode == Rcode.NOERROR


@pytest.mark.parametrize(("content", "near"), columns(TABLES, "files of secrets"))
def test_syntax_error_in_a_file_of_secrets(content: str, near: str, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(content)
    assert setup_error(Tsig, f"tsig {{\n secrets {path}\n}}") == (
        f'Corefile:3:10: syntax error in "{path}" near key "{near}"; expected: key "NAME" {{ secret "KEY"; }};'
    )
