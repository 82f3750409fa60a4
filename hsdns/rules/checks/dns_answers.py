"""HS231, HS232: the answers of a cluster's DNS servers, compared with its objects.

Path: judging.py -> here <- the objects DnsServer that cli/doctor_servers.py adds to a dump.
Rule 1: silent servers are ignored if no server can be reached from where the queries were sent.
Rule 2: answers that are not known to be of this cluster are ignored, except those of servers that were named, and those
        that a Pod gets: its clients get them too, wherever they come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hsdns.rules.check import check
from hsdns.rules.finding import Remark
from hsdns.rules.manifest import Manifest
from hsdns.rules.objects import Objects

DNS_SERVER: Final = "DnsServer"  # as in sources/cluster_dump.py, which lint does not import
_SERVICE: Final = "service"
_VIEW: Final = "view"  # queried from a Pod, which the finding is about
_MOST: Final = 5  # records that a sentence names


@check("HS231")
def silent(objects: Objects) -> Iterator[Remark]:
    """Servers that do not answer."""
    for manifest in objects.written(DNS_SERVER):
        found = manifest.content
        silence = found.get("silence")
        if not silence or found.get("counts") is not True:
            continue
        if found.get("role") == _VIEW:
            yield _remark(
                manifest,
                f"asked from this Pod, {silence}: see the NetworkPolicies that select it, and the network of its node",
            )
        elif found.get("role") == _SERVICE:
            yield _remark(
                manifest,
                f"the cluster IP does not answer ({silence}), and the pods behind it do; from outside of the cluster "
                "that is usual, on a node or in a pod see what its kube-proxy says",
                "note",
            )
        else:
            yield _remark(
                manifest,
                f"{silence}; whoever is sent to it waits in vain too: see its log, and the network of its node",
            )


@check("HS232")
def differs(objects: Objects) -> Iterator[Remark]:
    """Servers whose answers differ from the objects."""
    for manifest in objects.written(DNS_SERVER):
        address, answers = manifest.content.get("address"), manifest.content.get("answers")
        wrong = [
            each
            for each in (answers if isinstance(answers, list) else ())
            if isinstance(each, dict) and each.get("right") is False
        ]
        if wrong and manifest.content.get("known") is True:
            first, others = wrong[0], len(wrong) - 1
            more = f" ({others} more of {len(answers)} answers are not right)" if others else ""
            yield _remark(
                manifest,
                f"{address} answers {first.get('name')} {first.get('type')} {_said(first)}{more}: "
                "see in its log whether it still reads the cluster, and ask hsdns explain why",
            )


def asked(objects: Objects) -> list[str]:
    """A sentence about each server that was queried."""
    found = []
    for manifest in objects.written(DNS_SERVER):
        content = manifest.content
        answers = content.get("answers")
        listed = [each for each in answers or () if isinstance(each, dict)]
        right = sum(each.get("right") is True for each in listed)
        said = f"{right} of {len(listed)} answers are right" if listed else ""
        if right < len(listed) and content.get("known") is not True:
            said += ", and none shows that it is of this cluster, so they are not judged"
        silence = str(content.get("silence") or "")
        between = "asked" if content.get("role") == _VIEW else "at"
        where = f"{content.get('about')} {between} {content.get('address')}"
        found.append(f"{where}: {'; '.join(filter(None, [said, silence]))}")
    return found


def _said(answer: dict[str, Any]) -> str:
    if "expected" not in answer:
        return f"with {answer.get('rcode')}"
    parts = []
    if answer.get("rcode") != answer["expected"]:
        parts.append(f"with {answer.get('rcode')} instead of {answer['expected']}")
    for word, key in (("without", "lacks"), ("with", "has")):
        records = answer.get(key)
        if isinstance(records, list) and records:
            shown = ", ".join(map(str, records[:_MOST]))
            more = f" and {len(records) - _MOST} more" if len(records) > _MOST else ""
            parts.append(f"{word} {shown}{more}{', which is not right' if key == 'has' else ''}")
    return ", ".join(parts)


def _remark(manifest: Manifest, sentence: str, level: str = "") -> Remark:
    return Remark(manifest.at("address"), str(manifest.content.get("about")), "", sentence, level)
