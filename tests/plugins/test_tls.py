from __future__ import annotations

import logging
import ssl
import stat
from pathlib import Path

import pytest

from hsdns.corefile.tree import CorefileError
from hsdns.plugins.tls import Tls
from tests.support.coroutines.eager import finish
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import directives, make_block, set_up, setup_error

DATA = Path(__file__).parents[1] / "data" / "tls"
SERVER = f"{DATA}/server.pem {DATA}/server.key"


@pytest.mark.parametrize(
    ("more", "mode"),
    [
        pytest.param("", ssl.CERT_NONE, id="default"),
        pytest.param(" {\nclient_auth nocert\n}", ssl.CERT_NONE, id="none"),
        pytest.param(f" {DATA}/ca.pem {{\nclient_auth verify_if_given\n}}", ssl.CERT_OPTIONAL, id="if-given"),
        pytest.param(f" {DATA}/ca.pem {{\nclient_auth require_and_verify\n}}", ssl.CERT_REQUIRED, id="required"),
    ],
)  # fmt: skip
def test_client_auth(more: str, mode: ssl.VerifyMode) -> None:
    context = set_up(Tls, f"tls {SERVER}{more}").context
    assert context.verify_mode == mode
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert len(context.get_ca_certs()) == (1 if "ca.pem" in more else 0)


def test_system_certificates_without_a_ca() -> None:
    context = set_up(Tls, f"tls {SERVER} {{\nclient_auth require_and_verify\n}}").context
    assert context.verify_mode == ssl.CERT_REQUIRED


def test_last_of_several_takes_effect() -> None:
    plugin = set_up(Tls, f"tls {SERVER}\ntls {SERVER} {DATA}/ca.pem")
    assert plugin.files.ca == f"{DATA}/ca.pem"


def test_relative_files_are_under_root() -> None:
    block = make_block()._replace(root=str(DATA))
    assert (
        Tls.setup(directives("tls server.pem server.key"), block).files.cert == f"{DATA}/server.pem"
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("tls", 'Corefile:2:1: "tls" takes 2 or 3 files, CERT KEY [CA], found 0', id="none"),
        pytest.param("tls a", 'Corefile:2:1: "tls" takes 2 or 3 files, CERT KEY [CA], found 1', id="one"),
        pytest.param("tls a b c d", 'Corefile:2:1: "tls" takes 2 or 3 files, CERT KEY [CA], found 4', id="four"),
        pytest.param("tls {\nacme example.org\n}", 'Corefile:3:1: "acme": hsdns does not obtain certificates by ACME; use cert-manager or another tool to write them to files, and "tls CERT KEY"', id="acme"),
        pytest.param("tls {\nemail a@example.org\n}", 'Corefile:3:1: "email": hsdns does not obtain certificates by ACME; use cert-manager or another tool to write them to files, and "tls CERT KEY"', id="acme-email"),
        pytest.param("tls nowhere.pem nowhere.key", 'Corefile:2:5: cannot use "nowhere.pem" for TLS: No such file or directory', id="no-file"),
        pytest.param(f"tls {DATA}/client.pem {DATA}/client-encrypted.key", f'Corefile:2:5: cannot use "{DATA}/client.pem" for TLS: the key is encrypted; decrypt it first', id="encrypted"),
        pytest.param(f"tls {SERVER} nowhere.pem", 'Corefile:2:5: cannot use "nowhere.pem" for TLS: No such file or directory', id="no-authority"),
        pytest.param(f"tls {SERVER} {{\nclient_auth require\n}}", 'Corefile:3:13: "require" requests certificates without verifying them, which hsdns cannot do; use "verify_if_given" or "require_and_verify"', id="unverified"),
        pytest.param(f"tls {SERVER} {{\nclient_auth request\n}}", 'Corefile:3:13: "request" requests certificates without verifying them, which hsdns cannot do; use "verify_if_given" or "require_and_verify"', id="request"),
        pytest.param(f"tls {SERVER} {{\nclient_auth no\n}}", 'Corefile:3:13: "no" is not one of: nocert, verify_if_given, require_and_verify', id="other-auth"),
        pytest.param(f"tls {SERVER} {{\nkeylog\n}}", 'Corefile:3:1: property "keylog" takes 1 argument, found 0', id="keylog"),
        pytest.param(f"tls {SERVER} {{\nacme example.org\n}}", 'Corefile:3:1: unknown property "acme" of tls', id="acme-and-files"),
    ],
)  # fmt: skip
def test_setup_errors(text: str, error: str) -> None:
    assert setup_error(Tls, text) == error


def test_key_of_another_certificate() -> None:
    error = setup_error(Tls, f"tls {DATA}/server.pem {DATA}/client.key")
    assert error.startswith(f'Corefile:2:5: cannot use "{DATA}/server.pem" for TLS: ')
    assert "KEY_VALUES_MISMATCH" in error.upper() or "mismatch" in error


def test_keylog(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is opened when the server starts, not at -validate, and only its owner may read it."""
    path = tmp_path / "keys"
    plugin = set_up(Tls, f"tls {SERVER} {{\nkeylog {path}\n}}")
    assert not path.exists()
    with caplog.at_level(logging.WARNING, "hsdns"):
        finish(plugin.start(FakeRuntime()))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert plugin.context.keylog_filename == str(path)
    assert caplog.messages == [f'plugin/tls: Writing TLS Key Log to "{path}"']


def test_keylog_that_cannot_be_written(tmp_path: Path) -> None:
    plugin = set_up(Tls, f"tls {SERVER} {{\nkeylog {tmp_path}/none/keys\n}}")
    with pytest.raises(CorefileError) as caught:
        finish(plugin.start(FakeRuntime()))
    assert str(caught.value) == (
        f'Corefile:2:5: cannot write TLS keys to "{tmp_path}/none/keys": No such file or directory'
    )


def test_one_address_has_one_certificate() -> None:
    first, same = (set_up(Tls, f"tls {SERVER}") for _ in range(2))
    other = set_up(Tls, f"tls {SERVER} {DATA}/ca.pem")
    same.agree_with(first)
    with pytest.raises(CorefileError, match="other TLS files, at Corefile:2:5"):
        other.agree_with(first)
