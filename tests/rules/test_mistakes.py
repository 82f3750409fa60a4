"""Applications of any form: nothing is found in them, and each mistake of the kinds that people make is."""

from __future__ import annotations

import copy
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hsdns.rules.judging import judge, read_files
from hsdns.rules.objects import mapping_at, mappings_at
from tests.support.manifests.documents import documents

Documents = list[dict[str, Any]]
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


def _services(made: Documents) -> list[dict[str, Any]]:
    return [
        each for each in made if each.get("kind") == "Service" and mapping_at(each, "spec.selector")
    ]


def _labels(workload: dict[str, Any]) -> dict[str, str]:
    is_one = workload.get("kind") in _PODS
    return mapping_at(workload, "spec.template.metadata.labels") if is_one else {}


def chosen(made: Documents, service: dict[str, Any]) -> list[dict[str, Any]]:
    """The workloads that a Service selects."""
    wanted = service["spec"]["selector"].items()
    near = service["metadata"].get("namespace")
    return [
        each
        for each in made
        if wanted <= _labels(each).items() and each["metadata"].get("namespace") == near
    ]


def container_ports(made: Documents, service: dict[str, Any]) -> list[dict[str, Any]]:
    """The ports of the containers that a Service selects."""
    return [
        one
        for each in chosen(made, service)
        for kind in ("containers", "initContainers")
        for _, container in mappings_at(each, f"spec.template.spec.{kind}")
        for _, one in mappings_at(container, "ports")
    ]


def _named(
    made: Documents, random: Random, service: dict[str, Any]
) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """A port of a Service whose targetPort is a name, with the container ports of that name; or none."""
    ports, found = container_ports(made, service), []
    for _, port in mappings_at(service, "spec.ports"):
        meant = [each for each in ports if each.get("name") == port.get("targetPort")]
        found += [(port, meant)] if meant and isinstance(port.get("targetPort"), str) else []
    return random.sample(found, min(1, len(found)))


def _relabelled(
    made: Documents, random: Random, service: dict[str, Any], value: str | None = ""
) -> None:
    """A label of one of the workloads that a Service selects is misspelt, or with None taken away."""
    workload, key = (
        random.choice(chosen(made, service)),
        random.choice([*service["spec"]["selector"]]),
    )
    if value is None and len(_labels(workload)) == 1:
        return
    for labels in (_labels(workload), mapping_at(workload, "spec.selector.matchLabels")):
        if value is None:
            labels.pop(key, None)
        elif key in labels:
            value = labels[key] = value or typo(labels[key], random)


# The kinds: each changes `made`, or does not, if there is nothing for it to change.


def target_port(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """A targetPort is misspelt."""
    for port, _ in _named(made, random, service):
        port["targetPort"] = typo(port["targetPort"], random)


def port_name(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """A container port has another name."""
    for port, ports in _named(made, random, service):
        name = typo(port["targetPort"], random)
        for each in ports:
            each["name"] = name


def target_number(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """A targetPort is another number than the only port of the pods."""
    found = container_ports(made, service)
    is_headless = (
        service["spec"].get("clusterIP") == "None"
    )  # so clients reach any port of the pods
    for _, port in mappings_at(service, "spec.ports") if not is_headless else ():
        if len(found) == 1 and port.get("targetPort") == found[0].get("containerPort"):
            port["targetPort"] += random.choice((1, 10, 1000))


def service_name(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """The serviceName of a StatefulSet is misspelt."""
    for each in made:
        name = mapping_at(each, "spec").get("serviceName")
        if each.get("kind") == "StatefulSet" and name == service["metadata"]["name"]:
            each["spec"]["serviceName"] = typo(name, random)


def selector_value(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """A value of the selector is misspelt."""
    key = random.choice(list(wanted := service["spec"]["selector"]))
    wanted[key] = typo(wanted[key], random)


def selector_key(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """A key of the selector is misspelt, or another one."""
    key = random.choice(list(wanted := service["spec"]["selector"]))
    head, slash, last = key.rpartition("/")
    words = (typo(last, random), typo(last, random), "name", "app", "service", "run")
    other = f"{head}{slash}{random.choice(words)}"
    if other not in wanted:
        wanted[other] = wanted.pop(key)


def extra_label(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """The selector has a label more."""
    word = random.choice(("tier=web", "version=v1", "env=prod", "track=stable", "team=shop"))
    key, _, value = word.partition("=")
    if not any(key in _labels(each) for each in chosen(made, service)):
        service["spec"]["selector"].setdefault(key, value)


def exchanged_keys(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """Two keys of the selector have each other's values."""
    wanted = service["spec"]["selector"]
    if len(wanted) > 1:
        one, other = random.sample(list(wanted), 2)
        wanted[one], wanted[other] = wanted[other], wanted[one]


def template_label(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """A label of the only pods that a Service selects is misspelt."""
    if len(chosen(made, service)) == 1:
        _relabelled(made, random, service)


def missing_label(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """The only pods that a Service selects lack a label."""
    if len(chosen(made, service)) == 1:
        _relabelled(made, random, service, None)


def template_of_several(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """A label of one of several workloads that a Service selects is misspelt."""
    if len(chosen(made, service)) > 1:
        _relabelled(made, random, service)


def lost_label(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """The selector lacks a label, and so matches other pods too."""
    wanted, before = service["spec"]["selector"], len(chosen(made, service))
    if len(wanted) > 1:
        key = random.choice(list(wanted))
        value = wanted.pop(key)
        if len(chosen(made, service)) == before:
            wanted[key] = value


def wrong_namespace(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """A Service is in another namespace than its pods."""
    if namespace := service["metadata"].get("namespace"):
        service["metadata"]["namespace"] = typo(namespace, random)


def used_name(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """The name of a Service is misspelt where a program has it from."""
    name = str(service["metadata"]["name"])
    written = re.compile(
        rf"(?<=://){name}(?=[.:/])|(?<=@){name}(?=[.:/])|(?<![^\s=,]){name}(?=:[0-9]|\.[a-z0-9-]+\.svc)"
    )
    places = [
        place
        for each in made
        if each.get("kind") in (*_PODS, "ConfigMap")
        for place in _texts(each.get("data") or each.get("spec"))
        if len(place[2]) < 2000 and written.search(place[2])
    ]
    for parent, key, found in random.sample(places, min(1, len(places))):
        parent[key] = written.sub(misspelt(name, random), found)


def _texts(value: Any) -> Iterator[tuple[Any, Any, str]]:
    pairs = enumerate(value) if isinstance(value, list) else ()
    for key, each in list(value.items() if isinstance(value, dict) else pairs):
        if isinstance(each, str):
            yield value, key, each
        yield from _texts(each)


def backend(made: Documents, random: Random, service: dict[str, Any]) -> None:
    """An Ingress has the name of a Service, or of its port, misspelt."""
    for each in made:
        for parent, key, name in _texts(each.get("spec")) if each.get("kind") == "Ingress" else ():
            if name == service["metadata"]["name"] and key in ("name", "serviceName"):
                port = mapping_at(parent, "port")
                if "name" in port and random.random() < 0.5:
                    port["name"] = typo(port["name"], random)
                else:
                    parent[key] = misspelt(name, random)
                return


Kind = Callable[[Documents, Random, dict[str, Any]], None]
KINDS: tuple[Kind, ...] = (
    target_port, target_number, port_name, service_name, selector_value, selector_key, extra_label, exchanged_keys, lost_label,
    template_label, template_of_several, missing_label, wrong_namespace, used_name, backend,
)  # fmt: skip


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
        for kind in KINDS:
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


NAMES = (
    "web api checkout orders payments redis-cache postgres frontend search-indexer worker".split()
)
HELM = "app.kubernetes.io/"
STYLES: dict[str, dict[str, str]] = {
    "app": {"app": "{name}"},
    "tier": {"app": "{part}", "tier": "{name}"},
    "release": {"app": "{name}", "release": "{part}"},
    "helm": {f"{HELM}name": "{name}", f"{HELM}instance": "{part}"},
    "component": {
        f"{HELM}name": "{part}",
        f"{HELM}instance": "{part}",
        f"{HELM}component": "{name}",
    },
}


@st.composite
def applications(draw: st.DrawFn) -> Documents:
    """Workloads in a namespace, each with a Service, and some with a headless one."""
    prefix, style = draw(st.sampled_from(("", "lab-"))), draw(st.sampled_from(sorted(STYLES)))
    suffix, has_labels = draw(st.sampled_from(("", "-deployment", "-sts"))), draw(st.booleans())
    place = {"namespace": "lab"} if draw(st.booleans()) else {}
    made: Documents = []
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True)):
        labels = {key: value.format(name=name, part="lab") for key, value in STYLES[style].items()}
        named, number = draw(st.booleans()), draw(st.integers(1024, 1030))
        port = {
            "name": draw(st.sampled_from(("http", "grpc", "tcp-main"))),
            "containerPort": number,
        }
        kind = draw(st.sampled_from(("Deployment", "StatefulSet")))
        ports = [
            {"name": port["name"], "port": 80, "targetPort": port["name"] if named else number}
        ]
        template: dict[str, Any] = {
            "labels": labels | draw(st.sampled_from(({}, {"version": "v1"})))
        }
        containers = [{"name": "main", "image": "registry.example.org/a:1", "ports": [port]}]
        spec: dict[str, Any] = {
            "selector": {"matchLabels": labels},
            "template": {"metadata": template, "spec": {"containers": containers}},
        }
        if kind == "StatefulSet":
            spec["serviceName"] = draw(
                st.sampled_from((f"{prefix}{name}", f"{prefix}{name}-headless"))
            )
        services = dict.fromkeys((f"{prefix}{name}", spec.get("serviceName", f"{prefix}{name}")))
        meta = place | ({"labels": labels} if has_labels else {})
        made.append(
            {
                "apiVersion": "apps/v1",
                "kind": kind,
                "metadata": {"name": f"{prefix}{name}{suffix}", **meta},
                "spec": spec,
            }
        )
        for service in services:
            head = {"clusterIP": "None"} if service == spec.get("serviceName") else {}
            made.append(
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {"name": service, **meta},
                    "spec": {**head, "selector": dict(labels), "ports": ports},
                }
            )
    return made


@given(applications())
def test_nothing_is_found_in_what_is_right(made: Documents) -> None:
    assert findings(text(made)) == set()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(applications(), st.randoms(use_true_random=False))
def test_a_mistake_is_found(kind: Kind, made: Documents, random: Random) -> None:
    for service, changed in broken(made, kind, random, most=1):
        assert findings(text(changed)), f"{kind.__doc__} Service {service}"
