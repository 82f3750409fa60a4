from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from hsdns.corefile.tree import CorefileError, Position, Token
from hsdns.plugins.prometheus.web import read_web_config

DATA = Path(__file__).parents[2] / "data" / "tls"
TOKEN = Token("web.yml", Position("Corefile", 3, 6))
PAIR = f"tls_server_config:\n  cert_file: {DATA}/server.pem\n  key_file: {DATA}/server.key\n"


def read(folder: Path, text: str) -> ssl.SSLContext | None:
    path = folder / "web.yml"
    path.write_text(text)
    return read_web_config(TOKEN, str(path))


@pytest.mark.parametrize("text", ["", "tls_server_config:\n", "tls_server_config: {}\n"])
def test_plain_http_without_tls_settings(text: str, tmp_path: Path) -> None:
    assert read(tmp_path, text) is None


@pytest.mark.parametrize(
    ("more", "mode", "least", "most"),
    [
        pytest.param("", ssl.CERT_NONE, "TLSv1_2", "TLSv1_3", id="default"),
        pytest.param("  min_version: TLS13\n", ssl.CERT_NONE, "TLSv1_3", "TLSv1_3", id="newest"),
        pytest.param("  max_version: TLS12\n", ssl.CERT_NONE, "TLSv1_2", "TLSv1_2", id="older"),
        pytest.param(f"  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: {DATA}/ca.pem\n", ssl.CERT_REQUIRED, "TLSv1_2", "TLSv1_3", id="clients"),
        pytest.param(f"  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: {DATA}/ca.pem\n", ssl.CERT_OPTIONAL, "TLSv1_2", "TLSv1_3", id="some"),
    ],
)  # fmt: skip
def test_context(more: str, mode: ssl.VerifyMode, least: str, most: str, tmp_path: Path) -> None:
    context = read(tmp_path, PAIR + more)
    assert context is not None
    assert context.verify_mode == mode
    assert (context.minimum_version.name, context.maximum_version.name) == (least, most)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    for name in ("server.pem", "server.key"):
        (tmp_path / name).write_bytes((DATA / name).read_bytes())
    found = read(tmp_path, "tls_server_config: {cert_file: server.pem, key_file: server.key}")
    assert found is not None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("- a\n", "the file is not a mapping", id="list"),
        pytest.param("tls_server_config: 5\n", "tls_server_config is not a mapping", id="number"),
        pytest.param("basic_auth_users: {a: b}\n", '"basic_auth_users" is not known to hsdns, which has "tls_server_config"; remove it', id="passwords"),
        pytest.param(PAIR + "  cipher_suites: []\n", '"cipher_suites" is not known to hsdns, which has cert_file, key_file, client_auth_type, client_ca_file, min_version, max_version; remove it', id="ciphers"),
        pytest.param("tls_server_config: {cert_file: a}\n", '"key_file" is missing', id="no-key"),
        pytest.param(PAIR + "  min_version: TLS10\n", '"min_version: TLS10" is not one of: TLS12, TLS13', id="old"),
        pytest.param(PAIR + "  client_auth_type: RequestClientCert\n", '"client_auth_type: RequestClientCert" is not one of: NoClientCert, VerifyClientCertIfGiven, RequireAndVerifyClientCert', id="unverified"),
        pytest.param(PAIR + "  client_auth_type: VerifyClientCertIfGiven\n", '"client_auth_type" requires "client_ca_file"; add it', id="no-authority"),
    ],
)  # fmt: skip
def test_errors(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(CorefileError) as caught:
        read(tmp_path, text)
    assert str(caught.value) == f'Corefile:3:6: cannot use "web.yml" for TLS: {reason}'


@pytest.mark.parametrize(
    "text", ["a: [", "tls_server_config: {cert_file: x.pem, key_file: x.key}\n"]
)
def test_invalid_files(text: str, tmp_path: Path) -> None:
    with pytest.raises(CorefileError, match=r'^Corefile:3:6: cannot use "web\.yml" for TLS: '):
        read(tmp_path, text)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CorefileError, match="No such file or directory"):
        read_web_config(TOKEN, str(tmp_path / "none"))
