"""What is refused, and what is unusual, but valid: the table is in tests/support/manifests/mistakes.py.

tests/sources/test_same_as_api_server.py compares it with an API server.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hsdns.cluster.controllers.defaults import Refused, with_defaults
from hsdns.cluster.controllers.document import Document, check_document
from hsdns.cluster.controllers.kinds import KINDS
from hsdns.cluster.controllers.validation import validate
from tests.support.manifests.mistakes import ACCEPTED, MISTAKES, Mistake


def checked(manifest: dict[str, Any]) -> Document:
    kind = KINDS[manifest["apiVersion"].rpartition("/")[0], manifest["kind"]]
    return check_document(manifest["kind"], msgspec.convert(manifest, kind), "a.yaml:1")


@pytest.mark.parametrize("mistake", [pytest.param(each, id=each.id) for each in MISTAKES])
def test_mistakes(mistake: Mistake) -> None:
    with pytest.raises(Refused) as caught:
        checked(mistake.manifest)
    assert str(caught.value) == f"{mistake.at or mistake.field}: {mistake.sentence}"
    assert caught.value.field == (mistake.at or mistake.field)


@pytest.mark.parametrize("example", [pytest.param(each, id=each.id) for each in ACCEPTED])
def test_unusual(example: Mistake) -> None:
    document = checked(example.manifest)
    assert document.object is not None
    validate(document.kind, document.object)
    assert with_defaults(document.kind, document.object) is document.object
