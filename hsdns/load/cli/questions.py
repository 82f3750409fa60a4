"""The questions of a load: of a file, of a recording, or of a cluster, by its names or by the lookups of its pods.

Path: load.py -> here -> questions.py, replay.py, cluster/names.py.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hsdns.load.errors import LoadError
from hsdns.load.pods import PodPlan, check_lengths, resolv_confs
from hsdns.load.questions import Question, Questions, read_queries

if TYPE_CHECKING:
    from hsdns.load.cli.settings import LoadSettings
    from hsdns.plugins.kubernetes import Kubernetes

_SERVER: Final = "192.0.2.53"  # in the resolv.confs; queries go to -server anyway


def questions_of(settings: LoadSettings, blocks: Sequence[Kubernetes] = ()) -> Questions:
    """The questions; raise LoadError or OSError.  `blocks` are those of the cluster, if there is one."""
    from hsdns.load.cluster.names import cluster_questions

    flags, replay = settings.flags, settings.replay
    if flags.queries:
        return Questions(_read_queries(flags.queries), seed=flags.seed)
    if replay is not None:
        return Questions(replay.questions, recorded=replay.recorded)
    if flags.pods is not None:
        return Questions([], seed=flags.seed, pods=_pods(settings, blocks))
    answer_sets = [block.answer_set() for block in blocks]
    return cluster_questions(answer_sets, settings.mix, flags.zipf, flags.seed)


def _read_queries(path: str) -> list[Question]:
    if path == "-":
        return read_queries(sys.stdin, "standard input")
    with Path(path).open(encoding="utf-8", errors="replace") as file:
        return read_queries(file, path)


def _pods(settings: LoadSettings, blocks: Sequence[Kubernetes]) -> PodPlan:
    from hsdns.load.cluster.names import cluster_targets

    flags, count = settings.flags, settings.flags.pods or 0
    if len(blocks) != 1:
        raise LoadError(
            f"-pods needs one kubernetes block, but the Corefile has {len(blocks)}; leave one in it"
        )
    answer_set = blocks[0].answer_set()
    zone, targets, weights = cluster_targets(
        answer_set, flags.external, settings.mix, flags.zipf, flags.seed
    )
    domain = zone.to_text().rstrip(".")
    namespaces = sorted(label.decode("latin-1") for label in answer_set.exposed_namespaces())
    namespaces = namespaces[:count]
    options = dict(each.partition(":")[::2] for each in flags.resolv_options)
    plan = PodPlan(
        count,
        namespaces,
        resolv_confs(namespaces, _SERVER, domain, flags.node_search, options),
        domain,
        flags.resolvers,
        flags.forms_,
        targets,
        weights,
        flags.seed,
    )
    check_lengths(plan)
    return plan


def in_words(settings: LoadSettings, questions: Questions) -> str:
    """A description of the questions, for the report."""
    pods, flags = questions.pods, settings.flags
    if pods is not None:
        resolvers = ", ".join(f"{name} {share}" for name, share in pods.resolvers.items())
        kinds = ", ".join(dict.fromkeys(each.kind for each in pods.targets))
        where = f"{pods.count} pods ({resolvers}) in {len(pods.namespaces)} namespaces"
        return f"lookups of {where}, {len(pods.targets)} names: {kinds}"
    if settings.replay is not None:
        return settings.replay.what
    groups = ", ".join(dict.fromkeys(each.group for each in questions.all))
    return f"{len(questions.all)} questions of {flags.queries or f'the cluster: {groups}'}"
