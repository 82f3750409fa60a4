"""HS102 to HS108, HS171 to HS176: names of pods, their dnsPolicy and dnsConfig, and what the search list costs.

Path: judging.py -> here.
Source: k8s.io/endpointslice: an endpoint has a hostname if its pod has one and its subdomain is the Service's name.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from hsdns.causes.alias import DOMAIN
from hsdns.causes.behind import nameless
from hsdns.causes.labels import is_misspelt, is_slip
from hsdns.cluster.controllers.defaults import Refused, check_label
from hsdns.cluster.controllers.kinds import PodManifest, Workload
from hsdns.cluster.objects import labels_text
from hsdns.resolver.musl import LINE_LEN
from hsdns.resolver.resolv_conf import MOST_SEARCHES, PodDns, search_list
from hsdns.rules.objects import (
    Manifest,
    Objects,
    PodSet,
    check,
    is_near,
    mappings_at,
    texts_of,
    value_at,
)
from hsdns.rules.rule import Remark
from hsdns.sources.manifest_yaml import field_node

_POD_NAME: Final = re.compile(r"spec\.(template\.spec\.)?(hostname|subdomain)")


def is_about_pod_name(fault: Refused) -> bool:
    """Whether a refusal is about a hostname or a subdomain."""
    return _POD_NAME.fullmatch(fault.field) is not None


def _stateful_sets(objects: Objects) -> Iterator[tuple[PodSet, Workload]]:
    for pods in objects.templates:
        found = pods.manifest.object
        if pods.manifest.kind == "StatefulSet" and isinstance(found, Workload):
            yield pods, found


@check("HS102", needs="services|pods|statefulsets", each=_stateful_sets)
def service_name(objects: Objects, pods: PodSet, workload: Workload) -> Iterator[Remark]:
    """StatefulSets whose serviceName gives their pods no names."""
    name = workload.spec.service_name
    if name:
        yield from _without_service(objects, pods, name, "spec.serviceName")


@check("HS103", needs="services|statefulsets", each=_stateful_sets)
def with_cluster_ip(objects: Objects, pods: PodSet, workload: Workload) -> Iterator[Remark]:
    """StatefulSets whose Service has a cluster IP."""
    manifest, name = pods.manifest, workload.spec.service_name
    named = objects.named(name, manifest) if name else []
    if len(named) == 1 and not named[0][1].is_headless and named[0][1].spec.type != "ExternalName":
        headless = [str(each) for each, service in objects.services_of(pods) if service.is_headless]
        hint = f"; {headless[0]} is headless" if headless else ""
        yield manifest.remark(
            "spec.serviceName",
            f"{named[0][0]} has a cluster IP, so its name resolves to that and not to the pods{hint}; "
            "name a headless Service if clients look for all pods",
        )


@check("HS104", needs="files", each=_stateful_sets)
def other_service(objects: Objects, pods: PodSet, workload: Workload) -> Iterator[Remark]:
    """Names of pods written below another Service than that of serviceName."""
    owner, own = pods.manifest, workload.spec.service_name
    others = [
        each.name
        for each, service in objects.services_of(pods)
        if each.name != own and service.spec.type != "ExternalName"
    ]
    if not own or not others:
        return
    services = "|".join(map(re.escape, sorted(others)))
    written = re.compile(rf"(?<![\w.-])({re.escape(owner.name)}-\d+)\.({services})(?=[^\w-]|$)")
    for manifest in objects.manifests:
        if not is_near(manifest, owner) or not _has(written, manifest):
            continue
        for field, text in texts_of(manifest.content, ""):
            found = written.search(text)
            if found:
                place = manifest.within(field, text, found.start(), found[0])
                yield manifest.remark(
                    field,
                    f'"{found[0]}" does not exist: serviceName of {owner} is {own}, so the names of its pods '
                    f'are below {own}; write "{found[1]}.{own}", or serviceName: {found[2]}',
                )._replace(position=place)


@check("HS105", needs="pods", each="templates")
def without_hostname(objects: Objects, pods: PodSet) -> Iterator[Remark]:
    """Pods with a subdomain and no hostname."""
    manifest, spec = pods.manifest, pods.spec
    if not spec.subdomain or spec.hostname or manifest.kind in ("StatefulSet", "Job", "CronJob"):
        return
    if manifest.object is None:
        return  # a kind whose controller may set it
    is_pod = manifest.kind == "Pod"
    whose = f"{manifest} has" if is_pod else f"the pods of {manifest} have"
    own = "it has no DNS name" if is_pod else "they have no DNS names"
    yield manifest.remark(
        f"{pods.field}.subdomain",
        f"{whose} subdomain {spec.subdomain} but no hostname, so {own}; "
        "add hostname for one pod, or use a StatefulSet for several",
    )


@check("HS106", needs="services|pods", each="templates")
def without_service(objects: Objects, pods: PodSet) -> Iterator[Remark]:
    """Pods whose subdomain is not a Service that selects them."""
    spec = pods.spec
    if spec.hostname and spec.subdomain and pods.manifest.kind != "StatefulSet":
        yield from _without_service(objects, pods, spec.subdomain, f"{pods.field}.subdomain")


@check("HS107", needs="files", each="manifests")
def no_label(objects: Objects, manifest: Manifest) -> Iterator[Remark]:
    """Hostnames and subdomains that are not DNS labels."""
    fault = manifest.refused
    if fault is None or not is_about_pod_name(fault):
        return
    node = field_node(manifest.node, fault.field)
    lower = str(getattr(node, "value", "")).lower()
    try:
        check_label(fault.field, lower)
        edit = manifest.replaced(fault.field, lower)
    except Refused:
        edit = None
    sentence = str(fault).removeprefix(f"{fault.field}: ")
    yield manifest.remark(fault.field, sentence, edit=edit)


@check("HS108", needs="pods", each="templates")
def shared_hostname(objects: Objects, pods: PodSet) -> Iterator[Remark]:
    """Several pods with one hostname."""
    manifest, spec = pods.manifest, pods.spec
    is_named = spec.hostname and spec.subdomain and manifest.kind != "StatefulSet"
    if is_named and (pods.replicas or 0) > 1:
        yield manifest.remark(
            f"{pods.field}.hostname",
            f"all {pods.replicas} pods have the hostname {spec.hostname}, so "
            f"{spec.hostname}.{spec.subdomain} resolves to all of them; use a StatefulSet for a name each",
        )


def _without_service(objects: Objects, pods: PodSet, name: str, field: str) -> Iterator[Remark]:
    manifest = pods.manifest
    named = objects.named(name, manifest)
    # A Service that also selects other pods has another purpose, for example that all components find each other.
    headless = [
        each.name
        for each, service in objects.services_of(pods)
        if service.is_headless
        and all(
            one.manifest is manifest for one in objects.selected(each, service.spec.selector or {})
        )
    ]
    path = "/".join(filter(None, (manifest.namespace, name)))
    is_pod = manifest.kind == "Pod"
    whose = f"pod {manifest.name}" if is_pod else f"the pods of {manifest.kind} {manifest.name}"
    if not named:
        others = [] if headless else list(objects.services_of(pods))
        meant = [each.name for each, _ in objects.services_of(pods) if is_misspelt(name, each.name)]
        edit = None
        if len(set(meant)) == 1:
            edit = manifest.replaced(field, meant[0]) if is_slip(name, meant[0]) else None
            sentence = f'{nameless(path, whose, ())}; did you mean "{meant[0]}"?'
        elif headless:
            sentence = f"{nameless(path, whose, headless)}; write its name, or add the Service"
        elif objects.is_whole:
            sentence = f"{nameless(path, whose, ())}; add a headless Service of that name"
        elif (
            others
            and not any(service.is_headless for _, service in others)
            and not _is_name_of(name, [manifest.name, *(each.name for each, _ in others)])
        ):
            first = others[0][0].name
            sentence = (
                f"{nameless(path, whose, [first])}, but has a cluster IP; add a headless Service, and "
                "write its name"
            )
        else:
            return
        yield manifest.remark(field, sentence, edit=edit)
        return
    for each, service in named:
        selector = service.spec.selector or {}
        # A missing label may be set while the pods run, like that of a primary.
        has_other = any(pods.labels.get(key, value) != value for key, value in selector.items())
        if has_other and len(named) == 1:
            shown = labels_text(selector)
            yield manifest.remark(
                field,
                f"the selector of {each}, {shown}, does not match the pods, so they have no names below it; "
                "correct the selector or the labels",
            )


_NO_SERVICE: Final = ("none", "dummy", "unused", "headless")


def _is_name_of(name: str, names: list[str]) -> bool:
    """Whether a name is made of one of others, or says that there is no Service, so that it is none misspelt."""
    return name in _NO_SERVICE or any(
        f"-{one}-" in f"-{other}-" for each in names for one, other in ((name, each), (each, name))
    )


def _has(written: re.Pattern[str], manifest: Manifest) -> bool:
    try:
        return written.search(msgspec.json.encode(manifest.content).decode()) is not None
    except (TypeError, RecursionError):
        return False


# HS171 to HS175: the effects of dnsPolicy and dnsConfig on a pod's resolv.conf.


MOST_NDOTS: Final = 15  # the maximum of glibc and musl
_CLUSTER_FIRST: Final = ("", None, "ClusterFirst")


def _search_lists(objects: Objects) -> Iterator[tuple[PodSet, list[str]]]:
    """The pods that define search domains, and all their search domains."""
    for pods in objects.templates:
        manifest, spec = pods.manifest, pods.spec
        searches = (spec.dns_config.searches or []) if spec.dns_config is not None else []
        if searches:
            pod = PodDns(
                manifest.namespace or "default",
                spec.dns_policy or "ClusterFirst",
                bool(spec.host_network),
                searches=searches,
            )
            yield pods, list(search_list(pod, DOMAIN, ""))


@check("HS171", needs="pods", each=_search_lists)
def long_search(objects: Objects, pods: PodSet, found: list[str]) -> Iterator[Remark]:
    """Search lists that musl ignores."""
    length = len(f"search {' '.join(found)}".encode())
    if length > LINE_LEN:
        yield pods.manifest.remark(
            f"{pods.field}.dnsConfig.searches",
            f"musl, the libc of Alpine images, ignores the line search: it has {length} octets, more than "
            f"{LINE_LEN}, so it tries no search domain; list fewer or shorter ones",
        )


@check("HS175", needs="pods", each=_search_lists)
def many_domains(objects: Objects, pods: PodSet, found: list[str]) -> Iterator[Remark]:
    """Search lists that the kubelet truncates."""
    if len(found) > MOST_SEARCHES:
        yield pods.manifest.remark(
            f"{pods.field}.dnsConfig.searches",
            f"with those of the cluster there are {len(found)} search domains, and the kubelet writes the first "
            f"{MOST_SEARCHES}, so {found[MOST_SEARCHES]} and what comes after it are not tried; list fewer",
        )


@check("HS172", needs="pods", each="templates")
def ndots(objects: Objects, pods: PodSet) -> Iterator[Remark]:
    """Values of ndots with which short names do not resolve everywhere, or that cause more queries than usual."""
    config = pods.spec.dns_config
    for at, option in enumerate((config.options or ()) if config is not None else ()):
        if option.name != "ndots" or not re.fullmatch("[0-9]{1,9}", option.value or ""):
            continue
        number = int(option.value or 0)
        field = f"{pods.field}.dnsConfig.options[{at}].value"
        if number < 2:
            yield pods.manifest.remark(
                field,
                f"with ndots:{number} a name such as db.shop is looked up as given first, and musl, the libc of Alpine "
                "images, then tries no search domain; write names of other namespaces in full, or ndots:2",
            )
        elif number > 5:
            limit = (
                f", and more than {MOST_NDOTS} counts as {MOST_NDOTS}"
                if number > MOST_NDOTS
                else ""
            )
            yield pods.manifest.remark(
                field,
                f"with ndots:{number} even names with {min(number, MOST_NDOTS) - 1} dots are first tried with each "
                f"search domain{limit}; 5 is enough for all names of a cluster",
            )


@check("HS173", needs="pods", each="templates")
def host_network(objects: Objects, pods: PodSet) -> Iterator[Remark]:
    """Pods on the host network that use the node's DNS and not the cluster's."""
    manifest, spec = pods.manifest, pods.spec
    if not spec.host_network or spec.dns_policy not in _CLUSTER_FIRST:
        return
    yield manifest.remark(
        f"{pods.field}.hostNetwork",
        "on the host network dnsPolicy ClusterFirst means Default, so the pods ask the DNS of the node, and names "
        "of the cluster do not resolve; if they are needed, write dnsPolicy: ClusterFirstWithHostNet",
    )


@check("HS174", needs="pods", each="templates")
def without_nameserver(objects: Objects, pods: PodSet) -> Iterator[Remark]:
    """Pods with dnsPolicy None and no nameserver."""
    spec = pods.spec
    if spec.dns_policy == "None" and not (spec.dns_config and spec.dns_config.nameservers):
        yield pods.manifest.remark(
            f"{pods.field}.dnsPolicy",
            "with dnsPolicy None the pod has the nameservers of dnsConfig only, and there is none, which the API "
            "server refuses; add dnsConfig.nameservers",
        )


# HS176: queries caused by the search list, for names in recorded queries.
#
# Rule 1: clients are grouped by the workload of their Pod; those whose address is not a Pod's are one group.
# Rule 2: the proposed ndots is not lower than any name that was found with a search domain allows: musl tries no search
#         domain for a name with that many dots.


RECORDED: Final = "RecordedQueries"  # as in sources/cluster_dump.py, which lint does not import
DEFAULT: Final = 5  # ndots of a pod
LEAST: Final = 10  # failed queries from which on there is a finding
SHARE: Final = 4  # at least one of so many queries fails
_NOBODY: Final = ""


@check("HS176", needs="queries", each=lambda objects: objects.written(RECORDED))
def costly(objects: Objects, manifest: Manifest) -> Iterator[Remark]:
    """Workloads that query many names with search domains first."""
    owners = _owners(objects)
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for client in _mappings(manifest.content, "clients"):
        found[owners.get(str(client.get("address")), _NOBODY)].append(client)
    for place, clients in sorted(found.items()):
        queries = sum(_number(each, "queries") for each in clients)
        names = [one for each in clients for one in _mappings(each, "names")]
        extra = sum(_number(each, "extra") for each in names)
        if extra >= LEAST and extra * SHARE >= queries:
            who = "" if place else f" of {_listed(clients)}, no address of a known Pod,"
            yield Remark(
                manifest.at("clients"),
                place,
                "",
                f"{extra} of {queries} recorded queries{who} were useless because of the search list, most of them for "
                f"{_most(names)}; {_remedy(names, extra)}",
            )


def _most(names: list[dict[str, Any]]) -> str:
    extra, lookups = Counter[str](), Counter[str]()
    for each in names:
        extra[str(each.get("name"))] += _number(each, "extra")
        lookups[str(each.get("name"))] += _number(each, "lookups")
    name, count = extra.most_common(1)[0]
    return f"{name} ({count}, before {lookups[name]} answers)"


def _remedy(names: list[dict[str, Any]], extra: int) -> str:
    dots = [str(each.get("name")).count(".") for each in names if each.get("searched") is True]
    ndots = max(2, *(each + 1 for each in dots)) if dots else 2
    dot = "write whole names with a dot at the end"
    saved = sum(
        _number(each, "extra") for each in names if str(each.get("name")).count(".") >= ndots
    )
    if ndots >= DEFAULT or not saved:
        return dot
    return (
        f"{dot}, or ndots:{ndots} in dnsConfig.options, which would have saved {saved} of {extra}"
    )


def _owners(objects: Objects) -> dict[str, str]:
    """The workloads by the addresses of their Pods; Pods on the network of a node share its address."""
    known = {
        (each.kind, each.namespace, each.name): each
        for each in objects.manifests
        if isinstance(each.object, Workload)
    }
    found = {}
    for manifest in objects.of("Pod"):
        if not isinstance(manifest.object, PodManifest) or manifest.object.spec.host_network:
            continue
        owner, above = manifest, _owner(manifest)
        while above is not None and (above[0], manifest.namespace, above[1]) in known:
            owner = known[above[0], manifest.namespace, above[1]]
            above = _owner(owner)
        listed = [each.get("ip") for each in _mappings(manifest.content, "status.podIPs")]
        for address in (value_at(manifest.content, "status.podIP"), *listed):
            found[str(address)] = str(owner)
    return found


def _owner(manifest: Manifest) -> tuple[str, str] | None:
    """Kind and name of the owner of an object."""
    if isinstance(manifest.object, PodManifest | Workload):
        for each in manifest.object.metadata.owner_references or ():
            return each.kind, each.name
    return None


def _listed(clients: list[dict[str, Any]]) -> str:
    first = ", ".join(str(each.get("address")) for each in clients[:3])
    return first + (f" and {len(clients) - 3} more" if len(clients) > 3 else "")


def _mappings(value: Any, path: str) -> list[dict[str, Any]]:
    return [each for _, each in mappings_at(value, path)]


def _number(value: dict[str, Any], key: str) -> int:
    found = value.get(key)
    return found if isinstance(found, int) else 0
