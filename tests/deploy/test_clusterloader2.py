"""The test for clusterloader2: its templates make the objects of loadtest/kubernetes, and its commands are valid."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from hsdns import __version__
from hsdns.load.cli.load import Load
from hsdns.load.cli.reports import Merge
from hsdns.load.cli.settings import PERFDATA
from hsdns.load.cluster.job import LABEL
from tests.deploy.rendered import DEPLOY

FOLDER = DEPLOY / "clusterloader2"
NAMESPACE = "hsdns-load-1"
DEFAULT = re.compile(r"(?m)^\{\{\$(\w+) := DefaultParam \.CL2_HSDNS_\1 (.+)\}\}$")


def rendered(name: str, values: dict[str, str]) -> Any:
    """A template with the values of its placeholders."""
    text = DEFAULT.sub("", (FOLDER / name).read_text())
    return yaml.safe_load(re.sub(r"\{\{([$.]\w+)\}\}", lambda found: values[found[1]], text))


def test_objects_are_those_of_the_job() -> None:
    defaults = {
        f"${name}": json.loads(value)
        for name, value in DEFAULT.findall((FOLDER / "config.yaml").read_text())
    }
    config = rendered("config.yaml", {name: str(value) for name, value in defaults.items()})
    assert config["namespace"] == {"number": 1, "prefix": NAMESPACE.removesuffix("-1")}
    tuning = {each["name"] for each in config["tuningSets"]}
    made: dict[str, list[Any]] = {"0": [], "1": []}
    for phase in (each for step in config["steps"] for each in step.get("phases", ())):
        assert phase["tuningSet"] in tuning
        for each in phase["objectBundle"]:
            own = {
                f".{name}": str(value) for name, value in each.get("templateFillMap", {}).items()
            }
            values = {".Name": f"{each['basename']}-0", ".Namespace": NAMESPACE, **own}
            made[str(phase["replicasPerNamespace"])].append(
                rendered(each["objectTemplatePath"], values)
            )
    assert [each["kind"] for each in made["0"]] == ["ClusterRole", "ClusterRoleBinding"]
    assert made["0"] == made["1"][:2]
    paths = (DEPLOY.parent / "loadtest/kubernetes").glob("*.yaml")
    there = [
        each
        for path in paths
        for each in yaml.safe_load_all(path.read_text())
        if each["kind"] not in ("Kustomization", "Namespace")
    ]
    (job,) = (each for each in made["1"] if each["kind"] == "Job")
    assert job["metadata"].pop("labels") == {"group": NAMESPACE.removesuffix("-1")}
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"ghcr.io/hsdns/hsdns:{__version__}"
    container["image"] = "ghcr.io/hsdns/hsdns"
    assert container["args"].pop() == f"-fail-if={defaults['$FAIL_IF']}"
    assert Load.parse(container["args"][1:]) is not None
    assert sorted(map(plain, made["1"])) == sorted(map(plain, there))
    *_, measured = (each for step in config["steps"] for each in step.get("measurements", ()))
    command = measured["Params"]["command"][-1]
    assert (
        f"kubectl get configmaps -n {NAMESPACE} -l {LABEL}={job['metadata']['name']} -o json | hsdns load"
        in command
    )
    merge = Merge.parse(command.partition("hsdns load merge ")[2].partition(" > ")[0].split())
    assert merge is not None
    assert (merge.words, merge.o) == (["-"], PERFDATA)


def plain(found: Any) -> str:
    """An object without what its names and its namespace have of clusterloader2."""
    found["metadata"].pop("namespace", None)
    return (
        re.sub(r"-[01]\b(?=\")", "", json.dumps(found, sort_keys=True))
        .replace("-0=", "=")
        .replace("=load-0", "=load")
    )
