"""Corefiles of distributions, read from tests/data."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "data"
KUBEADM = (DATA / "kubeadm.Corefile").read_text()
