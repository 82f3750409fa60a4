"""Corefiles of distributions, read from tests/data, and configurations of Corefiles that a test writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hsdns.assemble import Configuration, assemble
from hsdns.corefile.parser import parse
from hsdns.corefile.tree import Corefile
from hsdns.plugins import NOT_YET, ORDER

DATA = Path(__file__).resolve().parents[2] / "data"
KUBEADM = (DATA / "kubeadm.Corefile").read_text()


def parsed(
    text: str, path: str = "Corefile", environ: Mapping[str, str] | None = None, **options: Any
) -> Corefile:
    """A Corefile with all plugins; options are those of parse()."""
    known: dict[str, Any] = {"known_directives": ORDER, "not_yet": NOT_YET, **options}
    return parse(path, text=text, environ=environ or {}, **known)


def assembled(
    text: str, path: str = "Corefile", environ: Mapping[str, str] | None = None, **options: Any
) -> Configuration:
    """The configuration of a Corefile, of which nothing warns; options are those of assemble()."""
    return assemble(parsed(text, path, environ), **{"warn": pytest.fail, **options})
