"""deploy/image/assemble.py: the packages of the image, with and without the library that reads kubeconfigs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deploy.image.assemble import copy_packages, required
from hsdns.apiserver.kubeconfig import INSTALL

# Imported from the copied packages alone: -I and -S leave out this environment's.
LOAD = """
import sys
sys.path.insert(0, sys.argv[1])
from hsdns.apiserver.kubeconfig_process import KubeconfigError, load_package
try:
    print(load_package("FILE").__name__)
except KubeconfigError as error:
    print(error)
"""
ONLY_FOR_KUBECONFIGS = {
    "kubernetes_asyncio",
    "certifi",
    "python-dateutil",
    "six",
    "tzdata",
    "urllib3",
}


@pytest.mark.parametrize(
    ("kubeconfig", "said"),
    [
        (True, "kubernetes_asyncio.config.kube_config"),
        (False, f"kubeconfig FILE needs the Python package kubernetes_asyncio; {INSTALL}"),
    ],
)
def test_kubeconfigs(tmp_path: Path, kubeconfig: bool, said: str) -> None:
    copy_packages(tmp_path, kubeconfig=kubeconfig)
    assert not (tmp_path / "kubernetes_asyncio/client").exists()
    found = subprocess.run(
        [sys.executable, "-IS", "-c", LOAD, str(tmp_path)],
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert found.stdout == f"{said}\n"


def test_what_is_left_out() -> None:
    whole, without = (
        {each.name.lower() for each in required(kubeconfig=it)} for it in (True, False)
    )
    assert whole - without == ONLY_FOR_KUBECONFIGS
    assert without < whole
