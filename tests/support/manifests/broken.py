"""Applications with one mistake each, of the kinds that people make: for the share of them that `hsdns lint` finds.

Run it over rendered applications, one file each: python -m tests.support.manifests.broken FILE...
Rule: a mistake counts only if it changes what a Service leads to, so that a name fails or leads to other pods.
"""

from __future__ import annotations

import copy
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import yaml

from hsdns.rules.judging import judge, read_files
from tests.support.manifests.documents import documents

Documents = list[dict[str, Any]]
Place = tuple[dict[str, Any], Any]  # a mapping, and its key whose value is changed
MOST = 4  # mistakes of a kind in an application
_PODS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")


def typo(word: str, random: Random) -> str:
    """A word misspelt, or another one."""
    is_other = random.random() < 0.2 or not any(map(str.isalpha, word))
    return random.choice(("other", "backend", "v2")) if is_other else misspelt(word, random)


def misspelt(word: str, random: Random) -> str:
    """A word with two letters exchanged, one lost, doubled or another one."""
    at = random.choice([at for at, each in enumerate(word) if each.isalpha()])
    ways = (
        word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :],
        word[:at] + word[at + 1 :],
        word[:at] + word[at] + word[at:],
        word[:at] + chr((ord(word[at].lower()) - 95) % 26 + 97) + word[at + 1 :],
    )
    found = random.choice(ways).strip("-_.")
    return found if found and found != word else f"{word}s"


def text(made: Documents) -> str:
    """The application as a file."""
    return yaml.dump_all(
        made, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False
    )


def findings(content: str) -> set[tuple[str, str, str]]:
    """What `hsdns lint` finds at its default level."""
    read = read_files([("app.yaml", content.encode())])
    found = judge(read.objects, read.silences).findings
    return {
        (each.rule.code, each.remark.place, each.remark.sentence)
        for each in found
        if each.level != "note"
    }


def _spec(each: dict[str, Any]) -> dict[str, Any]:
    return each.get("spec") or {}


def _services(made: Documents) -> list[dict[str, Any]]:
    return [each for each in made if each.get("kind") == "Service" and _spec(each).get("selector")]


def _pods(made: Documents) -> list[dict[str, Any]]:
    return [each for each in made if each.get("kind") in _PODS and _labels(each)]


def _labels(workload: dict[str, Any]) -> dict[str, str]:
    return ((_spec(workload).get("template") or {}).get("metadata") or {}).get("labels") or {}


def _namespace(each: dict[str, Any]) -> str:
    return str(each["metadata"].get("namespace") or "")


def chosen(made: Documents, service: dict[str, Any]) -> list[dict[str, Any]]:
    """The workloads that a Service selects."""
    wanted = _spec(service)["selector"].items()
    return [
        each
        for each in _pods(made)
        if wanted <= _labels(each).items() and _namespace(each) == _namespace(service)
    ]


def _containers(workload: dict[str, Any]) -> list[dict[str, Any]]:
    spec = _spec(workload)["template"].get("spec") or {}
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def _named(
    made: Documents, service: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The ports of a Service whose targetPort is a name, with the container ports of that name."""
    for port in _spec(service).get("ports") or ():
        ports = [
            one
            for each in chosen(made, service)
            for container in _containers(each)
            for one in container.get("ports") or ()
            if one.get("name") == port.get("targetPort")
        ]
        if isinstance(port.get("targetPort"), str) and ports:
            yield port, ports


def _set_label(workload: dict[str, Any], key: str, value: str | None) -> None:
    matched = (_spec(workload).get("selector") or {}).get("matchLabels") or {}
    for labels in (_labels(workload), matched):
        if key in labels and value is None:
            del labels[key]
        elif key in labels:
            labels[key] = str(value)


# The kinds: each changes `made`, or does not, if there is nothing for it to change.


def target_port(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """A targetPort is misspelt."""
    for port, _ in random.sample(found := list(_named(made, service)), min(1, len(found))):
        port["targetPort"] = typo(port["targetPort"], random)


def port_name(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """A container port has another name."""
    for port, ports in random.sample(found := list(_named(made, service)), min(1, len(found))):
        name = typo(port["targetPort"], random)
        for each in ports:
            each["name"] = name


def service_name(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """The serviceName of a StatefulSet is misspelt."""
    for each in _pods(made):
        if _spec(each).get("serviceName") == service["metadata"]["name"]:
            _spec(each)["serviceName"] = typo(_spec(each)["serviceName"], random)
            return


def selector_value(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """A value of the selector is misspelt."""
    key = random.choice(list(wanted := _spec(service)["selector"]))
    wanted[key] = typo(wanted[key], random)


def selector_key(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """A key of the selector is misspelt, or another one."""
    key = random.choice(list(wanted := _spec(service)["selector"]))
    head, slash, last = key.rpartition("/")
    other = (
        typo(last, random)
        if random.random() < 0.6
        else random.choice(("name", "app", "service", "run"))
    )
    if f"{head}{slash}{other}" not in wanted:
        wanted[f"{head}{slash}{other}"] = wanted.pop(key)


def extra_label(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """The selector has a label more."""
    pairs = (
        ("tier", "web"),
        ("version", "v1"),
        ("env", "prod"),
        ("track", "stable"),
        ("team", "shop"),
    )
    key, value = random.choice(pairs)
    if not any(key in _labels(each) for each in chosen(made, service)):
        _spec(service)["selector"].setdefault(key, value)


def exchanged_keys(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """Two keys of the selector have each other's values."""
    wanted = _spec(service)["selector"]
    if len(wanted) > 1:
        one, other = random.sample(list(wanted), 2)
        wanted[one], wanted[other] = wanted[other], wanted[one]


def template_label(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """A label of the only pods that a Service selects is misspelt."""
    if len(found := chosen(made, service)) == 1:
        key = random.choice(list(_spec(service)["selector"]))
        _set_label(found[0], key, typo(_labels(found[0])[key], random))


def missing_label(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """The only pods that a Service selects lack a label."""
    if len(found := chosen(made, service)) == 1 and len(_labels(found[0])) > 1:
        _set_label(found[0], random.choice(list(_spec(service)["selector"])), None)


def template_of_several(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """A label of one of several workloads that a Service selects is misspelt."""
    if len(found := chosen(made, service)) > 1:
        key = random.choice(list(_spec(service)["selector"]))
        _set_label(one := random.choice(found), key, typo(_labels(one)[key], random))


def lost_label(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """The selector lacks a label, and so matches other pods too."""
    wanted, before = _spec(service)["selector"], len(chosen(made, service))
    if len(wanted) > 1:
        key = random.choice(list(wanted))
        value = wanted.pop(key)
        if len(chosen(made, service)) == before:
            wanted[key] = value


def wrong_namespace(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """A Service is in another namespace than its pods."""
    if _namespace(service):
        service["metadata"]["namespace"] = typo(_namespace(service), random)


def used_name(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """The name of a Service is misspelt where a program has it from."""
    name = str(service["metadata"]["name"])
    written = re.compile(
        rf"(?<=://){name}(?=[.:/])|(?<=@){name}(?=[.:/])|(?<![^\s=,]){name}(?=:[0-9]|\.[a-z0-9-]+\.svc)"
    )
    places = [
        (parent, key)
        for each in made
        if each.get("kind") in (*_PODS, "ConfigMap")
        for parent, key in _texts(each.get("data") or _spec(each))
        if len(parent[key]) < 2000 and written.search(parent[key])
    ]
    for parent, key in random.sample(places, min(1, len(places))):
        parent[key] = written.sub(misspelt(name, random), parent[key])


def _texts(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, each in list(pairs):
        if isinstance(each, str):
            yield value, key
        yield from _texts(each)


def backend(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """An Ingress has the name of a Service, or of its port, misspelt."""
    for each in made:
        for parent, key in _texts(_spec(each)) if each.get("kind") == "Ingress" else ():
            if parent[key] == service["metadata"]["name"] and key in ("name", "serviceName"):
                port = parent.get("port") if random.random() < 0.5 else None
                if isinstance(port, dict) and "name" in port:
                    port["name"] = typo(port["name"], random)
                else:
                    parent[key] = misspelt(parent[key], random)
                return


Kind = Callable[[Documents, Random, dict[str, Any]], None]
KINDS: tuple[Kind, ...] = (
    target_port, port_name, service_name, selector_value, selector_key, extra_label, exchanged_keys,
    template_label, missing_label, wrong_namespace, used_name, backend,
)  # fmt: skip
# Those of which a part only shows: other pods still answer.
PARTLY: tuple[Kind, ...] = (template_of_several, lost_label)


def broken(
    made: Documents, kind: Kind, random: Random, most: int = MOST
) -> Iterator[tuple[str, Documents]]:
    """The application with a mistake of a kind, several times, each with the Service that it is about."""
    right = [at for at, each in enumerate(made) if each in _services(made) and chosen(made, each)]
    for at in random.sample(right, min(most, len(right))):
        changed = copy.deepcopy(made)
        kind(changed, random, changed[at])
        if changed != made:
            yield str(changed[at]["metadata"]["name"]), changed


def table(files: list[Path]) -> Iterator[str]:
    """How many mistakes of each kind are found in applications in which nothing is found, and those that are not."""
    random, found, total, unbroken = Random(1), Counter[str](), Counter[str](), 0
    for file in files:
        try:
            made = [
                each
                for each in documents(file.read_text(encoding="utf-8"))
                if isinstance(each, dict)
            ]
        except yaml.YAMLError:
            continue
        if not _services(made) or findings(text(made)):
            continue
        unbroken += 1
        for kind in KINDS + PARTLY:
            for name, changed in broken(made, kind, random):
                is_found = bool(findings(text(changed)))
                total[kind.__name__] += 1
                found[kind.__name__] += is_found
                if not is_found:
                    yield f"{kind.__name__}: not found in {file.name}: {name}"
    yield f"{unbroken} applications without findings"
    for name, count in total.items():
        yield f"{name:<20} {found[name]:>5} of {count:>5}  {100 * found[name] / count:5.1f} %"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in table([Path(each) for each in sys.argv[1:]]))
