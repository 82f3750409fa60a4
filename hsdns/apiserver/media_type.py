"""The media types of responses: the Accept header of a request, and the type of a response.

Path: reflector.py and sources/ahead.py send accepted() -> client.py; the Content-Type of the response decides.
Rule: protobuf is requested only if compiled code reads it: msgspec reads JSON faster than Python reads protobuf.
Source: Kubernetes API concepts, "Alternate representations of resources"; docs/decisions/0030.
"""

from __future__ import annotations

from typing import Final

from hsdns.apiserver.resource import Resource

JSON: Final = "application/json"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"


def accepted(resource: Resource, *, is_compiled: bool) -> str:
    """The Accept header of requests for a resource; `is_compiled`: whether compiled code reads protobuf."""
    return f"{PROTOBUF}, {JSON}" if is_compiled and not resource.is_custom else JSON


def is_protobuf(content_type: str) -> bool:
    """Whether a response with this Content-Type is protobuf."""
    return content_type.partition(";")[0].strip().lower() == PROTOBUF
