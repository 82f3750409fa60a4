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
