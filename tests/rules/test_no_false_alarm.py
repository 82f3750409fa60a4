"""Manifests that are right, however they look: no rule finds an error or a warning in them."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from hsdns.rules.judging import judge, read_files
from hsdns.wire.encode import MAX_TCP_LEN, encode
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, TC, Query, Reply
from hsdns.wire.name import Name

POD = """apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}{more}}}
spec:
{service}  template:
    metadata: {{labels: {labels}}}
    spec: {spec}
"""
SERVICE = """apiVersion: v1
kind: Service
metadata: {{name: {name}{more}}}
spec: {spec}
"""


def service(name: str, spec: str, more: str = "") -> str:
    return SERVICE.format(name=name, spec=spec, more=more)


def workload(
    name: str,
    labels: str,
    *,
    kind: str = "StatefulSet",
    service: str = "db",
    spec: str = "{}",
    more: str = "",
) -> str:
    named = f"  serviceName: {service}\n" if kind == "StatefulSet" else ""
    return POD.format(kind=kind, name=name, labels=labels, service=named, spec=spec, more=more)


def policy(name: str, egress: str, chosen: str = "{}") -> str:
    return f"""apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: {name}}}
spec: {{podSelector: {chosen}, policyTypes: [Ingress, Egress], egress: {egress}}}
"""


def slice_of(name: str, family: str, address: str, count: int) -> str:
    endpoints = ", ".join(
        f'{{addresses: ["{ip_address(address + "1") + number}"]}}' for number in range(count)
    )
    return f"""apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}-{family.lower()}, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: {family}
endpoints: [{endpoints}]
"""


DNS = (
    "{ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}], to: [{namespaceSelector: {}}]}"
)


FAR_DNS = "[{ports: [{port: 5353, protocol: UDP}, {port: 5353, protocol: TCP}]}]"
OPENSHIFT_DNS = FAR_DNS.replace("}]}]", '}], to: [{namespaceSelector: {matchLabels: {"kubernetes.io/metadata.name": openshift-dns}}}]}]')  # fmt: skip
MESH = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {istio-injection: enabled}}\n"
IN_MESH = workload("web", "{app: web}", kind="Deployment", more=", namespace: a")
ROUTE = "apiVersion: route.openshift.io/v1\nkind: Route\nmetadata: {name: web}\nspec: {to: {kind: Service, name: web}}\n"
SEARCHES = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: a}\nspec: {dnsPolicy: %s, dnsConfig: {nameservers: [192.0.2.1], searches: [%s]}}\n"
COREFILE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: coredns, namespace: kube-system}\ndata:\n  Corefile: |\n    . {\n        kubernetes %s\n    }\n    west.local {\n        forward . 10.8.0.10\n    }\n"
KUBELETS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kubelet-config, namespace: kube-system}\ndata: {kubelet: '{%s}'}\n"
KUBE_DNS = ", namespace: kube-system"
DNS_LABELS = "{k8s-app: kube-dns}"


def dns_server(name: str, replicas: str, spec: str = "{}", labels: str = DNS_LABELS) -> str:
    made = workload(name, labels, kind="Deployment", spec=spec, more=KUBE_DNS)
    return made.replace("  template:", f"  {replicas}\n  template:")


def pod(
    name: str, node: str, labels: str = DNS_LABELS, more: str = KUBE_DNS, status: str = "{}"
) -> str:
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {labels}{more}}}\nspec: {{nodeName: {node}}}\nstatus: {status}\n"


DNS_DEFAULT = "{selector: {dns: default}, ports: [{name: dns, port: 53, protocol: UDP, targetPort: dns}, {name: dns-tcp, port: 53, protocol: TCP, targetPort: dns-tcp}]}"


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([service("db", "{selector: {app: db, role: primary}}"), workload("db", "{app: db}")], id="label-set-at-run-time"),
        pytest.param([service("db", "{selector: {cluster: db}}"), workload("api", "{app: api}", kind="Deployment")], id="pods-of-an-operator"),
        pytest.param([service("agent", "{selector: {app: shop}}"), workload("operator", "{app.kubernetes.io/name: operator, app.kubernetes.io/instance: shop, app.kubernetes.io/part-of: shop}", kind="Deployment")], id="label-of-the-installation"),
        pytest.param([service("cache-b", "{selector: {app: cache-b}}"), workload("cache-a", "{app: cache-a}", kind="Deployment")], id="other-file-has-the-workload"),
        pytest.param([service("web", "{selector: {app: canary}}"), workload("web", "{app: web}", kind="Deployment")], id="selector-of-another-workload"),
        pytest.param([service("web", '{selector: {app: web, canary: "true"}}'), workload("web-v1", '{app: web, metrics: "true"}', kind="Deployment")], id="true-is-no-name"),
        pytest.param([service("web", "{selector: {app: web, version: v2}}"), workload("web-v1", "{app: web, version: v1}", kind="Deployment")], id="blue-and-green"),
        pytest.param([service("db-0", '{selector: {"statefulset.kubernetes.io/pod-name": db-0}}'), workload("db", "{app: db}")], id="service-for-one-pod"),
        pytest.param([service("web", "{selector: {app: web}}"), workload("web", "{app: web}", kind="Rollout", more=", namespace: a").replace("apps/v1", "argoproj.io/v1alpha1")], id="workload-of-another-group"),
        pytest.param([service("db", "{clusterIP: None, selector: {app: db}}", ", namespace: a"), workload("db", "{app: db}")], id="namespace-written-in-one-of-them"),
        pytest.param([service("db", "{clusterIP: None, selector: {app: db}}", ", namespace: a"), workload("db", "{name: db}", more=", namespace: b")], id="other-namespace"),
        pytest.param([workload("db", "{app: db}", service="elsewhere")], id="service-in-another-file"),
        pytest.param([service("db", "{selector: {app: db}}"), workload("db", "{app: db}", service='""')], id="no-service-name"),
        pytest.param([service("db", "{selector: {app: db}}"), workload("db", "{app: db}", service="headless")], id="service-with-cluster-ip-and-other-name"),
        pytest.param([service("db", "{selector: {app: db}, ports: [{port: 80, targetPort: http}]}"), workload("db", "{app: db}")], id="template-without-containers"),
        pytest.param([service("db", "{selector: {app: db}, ports: [{port: 80, targetPort: http}]}"), workload("db", "{app: db}", spec="{containers: [{name: a}], initContainers: [{name: b, restartPolicy: Always, ports: [{name: http, containerPort: 1}]}]}")], id="port-of-a-sidecar"),
        pytest.param([service("db", "{selector: {app: db}, ports: [{port: 80, targetPort: http}]}"), workload("db", "{app: db}", spec="{containers: [{name: a}]}"), workload("b", "{app: db}", spec="{containers: [{name: a, ports: [{name: http, containerPort: 1}]}]}")], id="port-of-one-of-two-workloads"),
        pytest.param([service("db", "{type: ExternalName, externalName: db.example.com.}")], id="whole-target"),
        pytest.param([service("db", "{type: ExternalName, externalName: mainframe}")], id="target-of-one-label"),
        pytest.param([service("db", "{type: ExternalName, externalName: db.corp}")], id="target-of-two-labels"),
        pytest.param([service("db", "{clusterIP: None, ports: [{port: 1}]}")], id="slices-come-later"),
        pytest.param([service("db", "{clusterIP: None, ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv4, IPv6]}"), slice_of("db", "IPv4", "10.0.0.", 24), slice_of("db", "IPv6", "fd00::", 24)], id="48-addresses-of-two-families"),
        pytest.param([policy("deny", "[]")], id="denies-all-on-purpose"),
        pytest.param([policy("web", "[{ports: [{port: 80}]}]"), policy("dns", f"[{DNS}]")], id="another-policy-allows-dns"),
        pytest.param([policy("api", "[{ports: [{port: 6443}]}]")], id="needs-the-api-server-only"),
        pytest.param([service("db", "{selector: {app: db}, ports: [{name: a, port: 80, targetPort: http}, {name: b, port: 81, targetPort: tls}]}"), workload("db", "{app: db}", spec="{containers: [{name: a, ports: [{name: http, containerPort: 1}]}]}")], id="port-of-a-feature-that-is-off"),
        pytest.param([service("ring", "{clusterIP: None, selector: {app: db}}"), workload("a", "{app: db}", service="none"), workload("b", "{app: db}", service="none")], id="headless-service-of-all-components"),
        pytest.param([policy("all", "[{}]")], id="allows-all"),
        pytest.param([policy("web", OPENSHIFT_DNS)], id="dns-of-openshift"),
        pytest.param([policy("web", FAR_DNS), ROUTE], id="port-of-openshift-beside-a-route"),
        pytest.param([policy("web", FAR_DNS), service("dns-default", DNS_DEFAULT, ", namespace: openshift-dns")], id="port-of-the-service"),
        pytest.param([policy("web", f"[{DNS}]"), ROUTE], id="port-53-beside-a-route"),
        pytest.param([policy("web", f"[{DNS}]"), MESH, workload("web", "{app: web}", kind="Deployment", more=", namespace: b")], id="no-proxy-in-this-namespace"),
        pytest.param([policy("web", f"[{DNS}]"), MESH, workload("web", '{app: web, sidecar.istio.io/inject: "false"}', kind="Deployment", more=", namespace: a")], id="pod-without-a-proxy"),
        pytest.param([policy("web", f"[{DNS}]"), policy("mesh", "[{ports: [{port: 15012}]}]"), MESH, IN_MESH], id="another-policy-allows-istiod"),
        pytest.param([policy("web", f"[{DNS}, {{ports: [{{port: tls-xds}}]}}]"), MESH, IN_MESH], id="port-of-istiod-by-name"),
        pytest.param([policy("web", f"[{DNS}, {{to: [{{namespaceSelector: {{}}}}]}}]"), MESH, IN_MESH], id="all-of-the-cluster"),
        pytest.param([policy("deny", "[]"), MESH, IN_MESH], id="denies-the-mesh-on-purpose"),
        pytest.param([policy("dns", '[{to: [{ipBlock: {cidr: "10.96.0.10/32"}}]}]')], id="address-of-the-dns"),
        pytest.param([policy("dns", '[{to: [{ipBlock: {cidr: "0.0.0.0/0", except: ["169.254.169.254/32"]}}]}]')], id="all-but-metadata"),
        pytest.param([policy("dns", '[{to: [{namespaceSelector: {matchLabels: {"kubernetes.io/metadata.name": kube-system}}}]}]')], id="namespace-of-the-dns"),
        pytest.param([policy("dns", "[{ports: [{port: dns, protocol: UDP}, {port: dns-tcp, protocol: TCP}]}]")], id="ports-by-name"),
        pytest.param([policy("web", "[{ports: [{port: 80}]}]", "{matchLabels: {app: node}}"), workload("n", "{app: node}", kind="DaemonSet", spec="{hostNetwork: true}")], id="policies-are-not-for-the-host-network"),
        pytest.param([service("web", "{selector: {app: web}}", ", namespace: dev")], id="namespace-dev"),
        pytest.param([dns_server("coredns", "# as an autoscaler says")], id="dns-of-an-autoscaler"),
        pytest.param([dns_server("coredns", "replicas: 1"), dns_server("hsdns", "replicas: 1")], id="two-dns-servers-with-one-replica-each"),
        pytest.param([dns_server("coredns", "replicas: 1", labels="{app: other}")], id="one-replica-of-something-else"),
        pytest.param([service("kube-dns", "{selector: {app: hsdns}}", KUBE_DNS), dns_server("coredns", "replicas: 1")], id="dns-that-the-service-does-not-select"),
        pytest.param([dns_server("coredns", "replicas: 2", "{containers: [{name: metrics}, {name: coredns, ports: [{containerPort: 53}], readinessProbe: {}}]}")], id="sidecar-of-the-dns-without-a-probe"),
        pytest.param([pod("coredns-a", "one"), pod("coredns-b", "one"), pod("web", "one", "{app: web}", "")], id="cluster-of-one-node"),
        pytest.param([pod("coredns-a", "one"), pod("web", "two", "{app: web}", "")], id="one-dns-pod"),
        pytest.param([pod("coredns-a", "one"), pod("coredns-b", "one"), pod("coredns-c", "two", status="{phase: Running}"), pod("coredns-d", "one", status="{phase: Failed}")], id="dns-pods-on-two-nodes"),
        pytest.param([pod("web", "one", "{app: web}", status="{containerStatuses: [{name: web, restartCount: 3, lastState: {terminated: {reason: OOMKilled}}}]}")], id="restart-of-something-else"),
        pytest.param([COREFILE % "cluster.local in-addr.arpa", SEARCHES % ("ClusterFirst", "svc.cluster.local, b.svc.Cluster.Local., corp.example, b.svc.west.local, svc.clusterset.local"), KUBELETS % "clusterDomain: cluster.local."], id="one-domain"),
        pytest.param([COREFILE % "cluster.local", SEARCHES % ("None", "svc.east.local")], id="another-clusters-dns"),
        pytest.param([COREFILE % "{$DOMAIN}", SEARCHES % ("ClusterFirst", "svc.east.local")], id="domain-of-the-environment"),
        pytest.param([COREFILE % "__PILLAR__DNS__DOMAIN__", KUBELETS % "clusterDomain: a.local"], id="placeholder-for-the-domain"),
        pytest.param([COREFILE % "a.local b.local", KUBELETS % "clusterDomain: b.local", SEARCHES % ("ClusterFirst", "svc.a.local")], id="two-domains-while-one-is-left"),
        pytest.param([COREFILE % "cluster.local", KUBELETS % "clusterDNS: [10.96.0.10]"], id="kubelets-without-a-domain"),
        pytest.param([COREFILE % "cluster.local", KUBELETS % "clusterDomain: [a"], id="kubelets-with-no-configuration"),
        pytest.param([SEARCHES % ("ClusterFirst", "svc.east.local"), KUBELETS % "clusterDomain: a.local"], id="no-corefile"),
        pytest.param(["kind: Kustomization\napiVersion: kustomize.config.k8s.io/v1beta1\nresources: [a.yaml]\n"], id="kustomization"),
        pytest.param(["a: 1\nb: [2]\n"], id="values-of-a-chart"),
        pytest.param(["- op: replace\n  path: /spec\n"], id="json-patch"),
    ],
)  # fmt: skip
def test_nothing_is_found(objects: list[str]) -> None:
    read = read_files([(f"{number}.yaml", each.encode()) for number, each in enumerate(objects)])
    assert read.unread == []
    found = judge(read.objects, read.silences, preview=True).findings
    assert [str(each) for each in found if each.level != "note"] == []


KUBEADM = """.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
"""


@pytest.mark.parametrize(
    "corefile",
    [
        pytest.param(KUBEADM, id="kubeadm"),
        pytest.param(KUBEADM.replace("loadbalance", "import custom/*.override"), id="imports"),
        pytest.param(KUBEADM.replace("reload", "netbird"), id="plugin-of-an-own-build"),
        pytest.param(KUBEADM.replace("/etc/resolv.conf", "{$UPSTREAM} {$OTHER}"), id="environment"),
        pytest.param(". {\n bind 169.254.20.10\n forward . 127.0.0.1\n}\n", id="bound-elsewhere"),
        pytest.param(".:1053 {\n forward . 127.0.0.1\n}\n", id="other-port"),
        pytest.param("a.example {\n rewrite name prefix foo. bar. answer auto\n rewrite name suffix .a.example .b.example answer auto\n whoami\n}\n", id="rewrite-of-labels"),
        pytest.param(KUBEADM.replace("ready", "ready\n    hosts /etc/extra extra.cluster.local {\n 10.0.0.7 a.extra.cluster.local\n }"), id="hosts-of-a-zone-below"),
        pytest.param(KUBEADM.replace("ready", "ready\n    hosts {\n 10.0.0.7 a.example\n fallthrough cluster.local\n }"), id="hosts-that-pass-on-the-cluster"),
        pytest.param(KUBEADM.replace("ready", "ready\n    template IN A example {\n answer \"{{ .Name }} 60 IN A 10.0.0.1\"\n }"), id="template-of-another-zone"),
        pytest.param(KUBEADM.replace("ready", "ready\n    template ANY AAAA {\n rcode NOERROR\n }"), id="template-without-ipv6"),
        pytest.param("cluster.local {\n kubernetes\n}\n. {\n hosts {\n 10.0.0.7 a.example\n fallthrough\n }\n forward . 192.0.2.1 192.0.2.2\n loop\n}\n", id="hosts-in-another-block"),
        pytest.param(KUBEADM.replace("cluster.local in", "cluster.local {$ZONES} in").replace("loop", "loop\n    file db sub.example"), id="file-of-another-zone"),
        pytest.param("cluster.local {\n kubernetes cluster.local {\n fallthrough sub.cluster.local\n }\n forward sub.cluster.local 192.0.2.1\n}\n", id="forward-of-a-zone-that-is-passed-on"),
        pytest.param("a.example {\n rewrite continue name suffix .a.example .b.example answer auto\n rewrite name x.a.example y.b.example\n whoami\n}\n", id="rewrite-that-goes-on"),
        pytest.param("a.example {\n rewrite stop {\n name regex (.*)\\.a\\.example {1}.b.example\n answer name (.*)\\.b\\.example {1}.a.example\n }\n rewrite name suffix .a.example .c.example answer auto\n whoami\n}\n", id="rewrite-in-braces"),
    ],
)  # fmt: skip
def test_nothing_is_found_in_a_corefile(corefile: str) -> None:
    read = read_files([("Corefile", corefile.encode())])
    found = judge(read.objects, read.silences, preview=True).findings
    assert [str(each) for each in found if each.level != "note"] == []


def test_nothing_at_all_is_found_in_the_corefile_of_kubeadm() -> None:
    assert judge(read_files([("Corefile", KUBEADM.encode())]).objects, preview=True).findings == []


@pytest.mark.parametrize(
    ("objects", "found"),
    [
        ([policy("web", FAR_DNS)], ("HS161", "53 over UDP and TCP to the pods of kube-dns")),
        ([policy("web", "[{ports: [{port: 80}]}]"), ROUTE], ("HS161", "5353 over UDP and TCP to the pods of dns-default")),
        ([policy("web", FAR_DNS), service("kube-dns", "{ports: [{port: 53, targetPort: 1053}]}", ", namespace: kube-system")], ("HS161", "1053 over UDP and TCP to the pods of kube-dns")),
        ([policy("web", f"[{DNS}]"), service("dns-default", DNS_DEFAULT, ", namespace: openshift-dns")], ("HS161", "5353 over UDP and TCP to the pods of dns-default")),
        ([policy("web", "[{ports: [{port: 5353, protocol: UDP}]}]"), ROUTE], ("HS162", "5353 over TCP too")),
    ],
)  # fmt: skip
def test_the_port_of_the_dns_pods(objects: list[str], found: tuple[str, str]) -> None:
    """Which is in the sentence."""
    read = read_files([(f"{number}.yaml", each.encode()) for number, each in enumerate(objects)])
    findings = judge(read.objects, read.silences, preview=True).findings
    shown = [(each.rule.code, each.remark.sentence.rpartition("allow port ")[2]) for each in findings]  # fmt: skip
    assert [each for each in shown if each[0] in ("HS161", "HS162")] == [found]


def test_the_nearest_of_the_pods_that_may_be_meant_are_named() -> None:
    objects = [
        service("agent", "{selector: {app: made-by-an-operator}}"),
        service("cart", "{selector: {app: lab, component: chekout}}"),
        workload(
            "cart", "{name: cart}", kind="Deployment"
        ),  # the Service's name, and none of its keys
        workload("checkout", "{app: lab, component: checkout}", kind="Deployment"),
        workload("checkout-2", "{app: lab, component: checkout}", kind="Deployment"),
    ]
    read = read_files([("a.yaml", "---\n".join(objects).encode())])
    (found,) = (each for each in judge(read.objects).findings if each.rule.code == "HS101")
    assert found.message == (
        "Service cart: spec.selector: app=lab,component=chekout matches no pod, so the Service has no endpoints; the nearest "
        "pods, those of Deployment checkout, have component=checkout,app=lab; write the same labels in both"
    )


@pytest.mark.parametrize(
    ("selector", "labels"),
    [
        ("{app: chekout, pod-template-hash: x}", "{app: checkout}"),  # which the controller adds
        ("{app.kubernetes.io/instance: shop}", "{release: shop}"),
    ],
)
def test_labels_that_workloads_share_do_not_hide_the_pods(selector: str, labels: str) -> None:
    objects = [service("a", f"{{selector: {selector}}}"), workload("b", labels, kind="Deployment")]
    read = read_files([("a.yaml", "---\n".join(objects).encode())])
    assert [each.rule.code for each in judge(read.objects).findings] == ["HS101"]


def test_istiod_is_kept_from_a_namespace() -> None:
    by_name = "[{ports: [{port: dns, protocol: UDP}, {port: dns-tcp, protocol: TCP}]}]"
    objects = [policy("web", by_name), MESH, IN_MESH]
    read = read_files([(f"{number}.yaml", each.encode()) for number, each in enumerate(objects)])
    assert [
        each.rule.code for each in judge(read.objects, read.silences, preview=True).findings
    ] == ["HS163"]


ALL = "selector: {app: db}"
HTTP = "ports: [{name: http, port: 80}]"


@pytest.mark.parametrize(
    ("services", "found"),
    [
        ({"db": f"clusterIP: None, {ALL}", "alias": f"clusterIP: None, {ALL}"}, []),
        ({"db": f"clusterIP: None, {ALL}, {HTTP}", "alias": f"clusterIP: None, {ALL}, ports: [{{name: http, port: 8080, targetPort: 80}}]"}, ["HS112 alias"]),
        ({"db": f"clusterIP: None, publishNotReadyAddresses: true, {ALL}", "web": ALL}, []),
        ({"db": f"clusterIP: None, {ALL}", "other": f"clusterIP: None, publishNotReadyAddresses: true, {ALL}"}, ["HS109 other"]),
        ({"a": f"clusterIP: None, {ALL}, {HTTP}", "db": f"clusterIP: None, {ALL}"}, ["HS109 a"]),
        ({"b": f"clusterIP: None, {ALL}, {HTTP}", "a": f"clusterIP: None, {ALL}"}, ["HS109 b"]),
        ({"db": f"clusterIP: None, {ALL}", "other": f"clusterIP: None, {HTTP}, selector: {{app: x}}"}, []),
        ({"db": "clusterIP: None, ports: [{port: 80}]"}, ["HS114 db"]),
        ({"db": "ports: [{port: 80}]"}, []),
        ({"db": "type: ExternalName, externalName: a.example.com, ports: [{port: 80}]"}, []),
    ],
)  # fmt: skip
def test_services_of_the_same_pods_and_ports_without_names(
    services: dict[str, str], found: list[str]
) -> None:
    """Notes, too: those about the Services."""
    objects = [service(name, f"{{{spec}}}") for name, spec in services.items()]
    objects += [workload("x", "{app: db}"), workload("y", "{app: db}")]
    read = read_files([(f"{number}.yaml", each.encode()) for number, each in enumerate(objects)])
    findings = judge(read.objects, read.silences, preview=True).findings
    rows = [f"{each.rule.code} {each.remark.place.removeprefix('Service ')}" for each in findings]
    assert [each for each in rows if "StatefulSet" not in each] == found


def test_which_service_gives_the_pods_their_names() -> None:
    headless = ", ports: [{name: http, port: 80}]"
    for own, said in (
        ("db", "; only below db have pods names of their own, and SRV records of read lead"),
        ("none", "; below neither have pods names of their own, and SRV records lead"),
    ):
        objects = [
            service("db", f"{{clusterIP: None, {ALL}}}"),
            service("read", f"{{clusterIP: None, {ALL}{headless}}}"),
            workload("db", "{app: db}", service=own),
        ]
        read = read_files([("a.yaml", "---\n".join(objects).encode())])
        (found,) = (each for each in judge(read.objects).findings if each.rule.code == "HS109")
        assert "the ports are http 80/TCP here and none in db: an address" in found.message
        assert said in found.message


@pytest.mark.parametrize(
    ("family", "count", "found"),
    [("IPv4", 4093, []), ("IPv4", 4094, ["HS157"]), ("IPv6", 2339, []), ("IPv6", 2340, ["HS157"])],
)
def test_the_answer_that_is_said_to_be_cut_off_is(
    family: str, count: int, found: list[str]
) -> None:
    objects = [
        service("db", "{clusterIP: None}", ", namespace: lab"),
        slice_of("db", family, "10.0.0." if family == "IPv4" else "fd00::", count).replace(
            "metadata: {", "metadata: {namespace: lab, ", 1
        ),
    ]
    read = read_files([(f"{number}.yaml", each.encode()) for number, each in enumerate(objects)])
    codes = [each.rule.code for each in judge(read.objects, preview=True).findings]
    assert [each for each in codes if each == "HS157"] == found
    owner = Name.from_text("db.lab.svc.cluster.local.")
    rrtype, octets = (RRType.A, 4) if family == "IPv4" else (RRType.AAAA, 16)
    records = tuple(RR(owner, rrtype, 5, at.to_bytes(octets)) for at in range(count))
    wire = owner.wire + rrtype.to_bytes(2) + (1).to_bytes(2)
    reply = encode(Query(1, 0, owner, rrtype, 1, wire), Reply(answer=records), MAX_TCP_LEN)
    assert bool(reply[2] & TC >> 8) is bool(found)


def test_a_slice_may_be_over_full() -> None:
    read = read_files([("a.yaml", slice_of("db", "IPv4", "10.0.0.", 1001).encode())])
    levels = [each.level for each in judge(read.objects, preview=True).findings if each.rule.code == "HS156"]  # fmt: skip
    assert levels == ["error"]


MIRRORED = (
    "{apiVersion: v1, kind: Endpoints, metadata: {name: db%s}, subsets: [{addresses: [%s]}]}\n"
)
LEADER = ', annotations: {control-plane.alpha.kubernetes.io/leader: "x"}'


@pytest.mark.parametrize(
    ("endpoints", "spec", "more", "found"),
    [
        (MIRRORED % ("", "{ip: 10.0.0.1}"), "{}", [], []),
        (MIRRORED % (LEADER, "{ip: 10.0.0.1}"), "{}", [], ["HS153"]),
        (MIRRORED % (LEADER, "{ip: 10.0.0.1}"), "{selector: {app: db}}", [], []),
        (MIRRORED % (LEADER, "{ip: 10.0.0.1}"), "{}", [slice_of("db", "IPv4", "10.0.0.", 1)], []),
        (MIRRORED % ("", ", ".join(f"{{ip: 10.0.{at >> 8}.{at & 255}}}" for at in range(1000))), "{}", [], []),
        (MIRRORED % ("", ", ".join(f"{{ip: 10.0.{at >> 8}.{at & 255}}}" for at in range(1001))), "{}", [], ["HS153"]),
    ],
)  # fmt: skip
def test_endpoints_that_are_not_mirrored(
    endpoints: str, spec: str, more: list[str], found: list[str]
) -> None:
    objects = [endpoints, service("db", spec), *more]
    read = read_files([(f"{number}.yaml", each.encode()) for number, each in enumerate(objects)])
    codes = [each.rule.code for each in judge(read.objects, preview=True).findings]
    assert [each for each in codes if each == "HS153"] == found
