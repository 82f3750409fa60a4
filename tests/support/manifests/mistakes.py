"""One field of a valid object set to another value: what is refused, with the sentence, and what is unusual, but valid."""

from __future__ import annotations

import copy
import re
from typing import Any, Final, NamedTuple

import yaml

GONE: Final = object()  # the value of a field that is removed
_BASES: Final = """
service:
  apiVersion: v1
  kind: Service
  metadata: {name: web, namespace: mistakes, labels: {app: web}}
  spec:
    selector: {app: web}
    ports: [{name: http, port: 80, targetPort: http}, {name: dns, port: 53, protocol: UDP}]
headless:
  apiVersion: v1
  kind: Service
  metadata: {name: db, namespace: mistakes}
  spec: {clusterIP: None, selector: {app: db}, ports: [{port: 5432}]}
external:
  apiVersion: v1
  kind: Service
  metadata: {name: outside, namespace: mistakes}
  spec: {type: ExternalName, externalName: db.example.com}
slice:
  apiVersion: discovery.k8s.io/v1
  kind: EndpointSlice
  metadata: {name: web-1, namespace: mistakes, labels: {kubernetes.io/service-name: web}}
  addressType: IPv4
  endpoints: [{addresses: [10.1.0.1]}, {addresses: [10.1.0.2], hostname: two}]
  ports: [{name: http, port: 8080}, {name: dns, port: 53, protocol: UDP}]
endpoints:
  apiVersion: v1
  kind: Endpoints
  metadata: {name: web, namespace: mistakes}
  subsets:
  - addresses: [{ip: 10.1.0.1, hostname: one}]
    notReadyAddresses: [{ip: 10.1.0.2}]
    ports: [{name: http, port: 8080}, {name: dns, port: 53, protocol: UDP}]
pod:
  apiVersion: v1
  kind: Pod
  metadata: {name: web-0, namespace: mistakes, labels: {app: web}}
  spec:
    hostname: web-0
    subdomain: web
    containers: [{name: web, image: "registry.example.org/web:1", ports: [{name: http, containerPort: 80}, {containerPort: 81}]}]
set:
  apiVersion: apps/v1
  kind: StatefulSet
  metadata: {name: db, namespace: mistakes}
  spec:
    serviceName: db
    replicas: 2
    ordinals: {start: 0}
    selector: {matchLabels: {app: db}}
    template:
      metadata: {labels: {app: db, tier: back}}
      spec: {containers: [{name: db, image: "registry.example.org/db:1", ports: [{name: sql, containerPort: 5432}]}]}
deployment:
  apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: mistakes}
  spec:
    selector: {matchLabels: {app: web}}
    template:
      metadata: {labels: {app: web}}
      spec: {containers: [{name: web, image: "registry.example.org/web:1"}]}
import:
  apiVersion: multicluster.x-k8s.io/v1alpha1
  kind: ServiceImport
  metadata: {name: web, namespace: mistakes}
  spec: {type: ClusterSetIP, ips: [10.9.0.1], ports: [{name: http, port: 80, protocol: TCP}]}
namespace:
  apiVersion: v1
  kind: Namespace
  metadata: {name: mistaken}
"""
_LABEL = (
    'is not a DNS label; use at most 63 lower-case letters, digits and "-", without "-" at the ends'
)
_PORT = "is not a port number; write one from 1 to 65535"
_PORT_0 = "is not a port number; write one from 0 to 65535"
_PROTOCOL = "is not a protocol; write TCP, UDP or SCTP"
_PORT_NAME = 'is not the name of a container port; use at most 15 lower-case letters, digits and single "-", with at least one letter'
_IP = "is not an IP address; write one such as 10.244.0.10"
_CLUSTER_IP = "is not an IP address; write one such as 10.96.0.10, or None for a headless Service"
_SPECIAL = "which no endpoint may have; write the address that clients reach"
_VALUE = 'is not the value of a label; use at most 63 letters, digits, "-", "_" and ".", with a letter or digit at the ends'
_KEY = 'is not the key of a label; write a name of at most 63 letters, digits, "-", "_" and ".", with or without "DOMAIN/" before it'
_NONE = "a Service of type ExternalName has none; remove it"


class Mistake(NamedTuple):
    """A field set to a value, and the sentence about it; `at` is the field in the sentence if it is another one.

    `stored`: an API server accepts it.  `judged` is False for kinds that an API server has no definition of.
    """

    id: str
    base: str
    field: str
    value: object
    sentence: str = ""
    at: str = ""
    stored: bool = False
    judged: bool = True

    @property
    def manifest(self) -> dict[str, Any]:
        """The object."""
        made: dict[str, Any] = copy.deepcopy(yaml.safe_load(_BASES)[self.base])
        place: Any = made
        *above, last = [
            int(word) if word.isdigit() else word for word in re.findall(r"[^.\[\]]+", self.field)
        ]
        for step in above:
            place = place[step] if isinstance(step, int) else place.setdefault(step, {})
        if self.value is GONE:
            del place[last]
        else:
            place[last] = self.value
        return made


MISTAKES: Final = [
    Mistake("port-800000", "service", "spec.ports[0].port", 800_000, f"800000 {_PORT}"),
    Mistake("port-0", "service", "spec.ports[0].port", 0, f"0 {_PORT}"),
    Mistake("port-negative", "service", "spec.ports[0].port", -1, f"-1 {_PORT}"),
    Mistake("port-twice", "service", "spec.ports[1]", {"name": "a", "port": 80}, "port 80/TCP is listed twice; remove one", "spec.ports[1].port"),
    Mistake("port-without-name", "service", "spec.ports[1]", {"port": 81}, "each of several ports needs a name; add one", "spec.ports[1].name"),
    Mistake("port-name-twice", "service", "spec.ports[1].name", "http", 'the name "http" is used twice; choose another'),
    Mistake("port-name", "service", "spec.ports[1].name", "Dns_1", f'"Dns_1" {_LABEL}'),
    Mistake("protocol-lower-case", "service", "spec.ports[0].protocol", "tcp", f'"tcp" {_PROTOCOL}'),
    Mistake("target-800000", "service", "spec.ports[0].targetPort", 800_000, f"800000 {_PORT}"),
    Mistake("target-name", "service", "spec.ports[0].targetPort", "a-name-that-is-too-long", f'"a-name-that-is-too-long" {_PORT_NAME}'),
    Mistake("target-number-as-text", "service", "spec.ports[0].targetPort", "80", f'"80" {_PORT_NAME}'),
    Mistake("type", "service", "spec.type", "Headless", '"Headless" is not a type of Service; write ClusterIP, NodePort, LoadBalancer or ExternalName'),
    Mistake("cluster-ip", "service", "spec.clusterIP", "10.96.0", f'"10.96.0" {_CLUSTER_IP}'),
    Mistake("cluster-ip-none", "service", "spec.clusterIP", "none", f'"none" {_CLUSTER_IP}'),
    Mistake("cluster-ip-zone", "service", "spec.clusterIP", "fe80::1%eth0", f'"fe80::1%eth0" {_CLUSTER_IP}'),
    Mistake("cluster-ips-only", "service", "spec.clusterIPs", ["10.96.0.9"], 'clusterIPs begins with "10.96.0.9", clusterIP is ""; write the same in both', "spec"),
    Mistake("cluster-ips-differ", "headless", "spec.clusterIPs", ["10.96.0.9"], 'clusterIPs begins with "10.96.0.9", clusterIP is "None"; write the same in both'),
    Mistake("cluster-ips-none", "headless", "spec.clusterIPs", ["None", "None"], f'"None" {_CLUSTER_IP}', "spec.clusterIPs[0]"),
    Mistake("cluster-ips-of-one-family", "service", "spec", {"clusterIP": "10.96.0.8", "clusterIPs": ["10.96.0.8", "10.96.0.9"], "ports": [{"port": 80}], "ipFamilyPolicy": "PreferDualStack"}, "there may be one address of each family; remove one", "spec.clusterIPs"),
    Mistake("cluster-ip-of-other-family", "service", "spec", {"clusterIP": "10.96.0.8", "ipFamilies": ["IPv6"], "ports": [{"port": 80}]}, '"10.96.0.8" is not of ipFamilies[0], IPv6; correct one of them', "spec.clusterIPs[0]"),
    Mistake("two-families-without-policy", "service", "spec.ipFamilies", ["IPv4", "IPv6"], "a Service with two address families is not SingleStack; write ipFamilyPolicy: PreferDualStack", "spec.ipFamilyPolicy"),
    Mistake("family", "service", "spec.ipFamilies", ["ipv6"], '"ipv6" is not an address family; write IPv4 or IPv6', "spec.ipFamilies[0]"),
    Mistake("family-twice", "service", "spec.ipFamilies", ["IPv4", "IPv4"], 'the address family "IPv4" is used twice; choose another', "spec.ipFamilies[1]"),
    Mistake("policy", "service", "spec.ipFamilyPolicy", "DualStack", '"DualStack" is not a policy for address families; write SingleStack, PreferDualStack or RequireDualStack'),
    Mistake("headless-node-port", "headless", "spec.type", "NodePort", "None is for Services of type ClusterIP, not NodePort; remove it", "spec.clusterIP"),
    Mistake("selector-value", "service", "spec.selector", {"app": "web server"}, f'"web server" {_VALUE}', "spec.selector[app]"),
    Mistake("external-ip", "service", "spec.externalIPs", ["127.0.0.1"], f'"127.0.0.1" is a loopback address, {_SPECIAL}', "spec.externalIPs[0]"),
    Mistake("external-name-url", "external", "spec.externalName", "https://db.example.com", '"https://db.example.com" is not a domain name; write only the host, without scheme and path'),
    Mistake("external-name-port", "external", "spec.externalName", "db.example.com:5432", '"db.example.com:5432" is not a domain name; write it without the port'),
    Mistake("external-name-upper-case", "external", "spec.externalName", "DB.example.com", '"DB.example.com" is not a domain name; write it in lower case'),
    Mistake("external-name-underscore", "external", "spec.externalName", "_db.example.com", '"_db.example.com" is not a domain name; use lower-case letters, digits, "-" and "."'),
    Mistake("external-name-missing", "external", "spec.externalName", GONE, "a Service of type ExternalName needs a target; add externalName"),
    Mistake("external-name-cluster-ip", "external", "spec.clusterIP", "None", _NONE),
    Mistake("external-name-policy", "external", "spec.ipFamilyPolicy", "SingleStack", _NONE),
    Mistake("ingress-ip", "service", "status.loadBalancer", {"ingress": [{"ip": "1.2.3"}]}, '"1.2.3" is not an IP address; write one such as 10.96.0.10', "status.loadBalancer.ingress[0].ip", stored=True),
    Mistake("name", "service", "metadata.name", "web.shop", f'"web.shop" {_LABEL}'),
    Mistake("name-in-capitals", "pod", "metadata.name", "Web", '"Web" is not a valid name; use lower-case letters, digits, "-" and "."'),
    Mistake("name-with-empty-label", "pod", "metadata.name", "web..0", '"web..0" is not a valid name; use lower-case letters, digits, "-" and "."'),
    Mistake("namespace-name", "namespace", "metadata.name", "a.b", f'"a.b" {_LABEL}'),
    Mistake("label-value", "service", "metadata.labels.app", "web/1", f'"web/1" {_VALUE}', "metadata.labels[app]"),
    Mistake("label-key", "service", "metadata.labels", {"a b": "c"}, f'"a b" {_KEY}', "metadata.labels[a b]"),
    Mistake("label-key-prefix", "service", "metadata.labels", {"A.example/b": "c"}, f'"A.example/b" {_KEY}', "metadata.labels[A.example/b]"),
    Mistake("slice-type", "slice", "addressType", "ipv4", '"ipv4" is not an address type; write IPv4, IPv6 or FQDN'),
    Mistake("slice-without-type", "slice", "addressType", GONE, "the address type is missing; write IPv4, IPv6 or FQDN"),
    Mistake("slice-no-address", "slice", "endpoints[0].addresses", [], "an endpoint needs an address; add one"),
    Mistake("slice-address", "slice", "endpoints[1].addresses", ["10.1.0"], f'"10.1.0" {_IP}', "endpoints[1].addresses[0]"),
    Mistake("slice-address-of-other-family", "slice", "endpoints[0].addresses", ["fd00::1"], '"fd00::1" is not an IPv4 address; correct it or the address type', "endpoints[0].addresses[0]"),
    Mistake("slice-address-unspecified", "slice", "endpoints[0].addresses", ["0.0.0.0"], f'"0.0.0.0" is the unspecified address, {_SPECIAL}', "endpoints[0].addresses[0]"),
    Mistake("slice-address-link-local", "slice", "endpoints[0].addresses", ["169.254.1.1"], f'"169.254.1.1" is a link-local address, {_SPECIAL}', "endpoints[0].addresses[0]"),
    Mistake("slice-hostname", "slice", "endpoints[1].hostname", "two.web", f'"two.web" {_LABEL}'),
    Mistake("slice-protocol", "slice", "ports[0].protocol", "HTTP", f'"HTTP" {_PROTOCOL}'),
    Mistake("slice-port-name-twice", "slice", "ports[1].name", "http", 'the name "http" is used twice; choose another'),
    Mistake("slice-ports-without-name", "slice", "ports", [{"port": 1}, {"port": 2}], "two ports have no name; add one", "ports[1].name"),
    Mistake("slice-port-800000", "slice", "ports[0].port", 800_000, f"800000 {_PORT_0}", stored=True),
    Mistake("endpoints-address", "endpoints", "subsets[0].addresses[0].ip", "db", f'"db" {_IP}'),
    Mistake("endpoints-loopback", "endpoints", "subsets[0].notReadyAddresses[0].ip", "::1", f'"::1" is a loopback address, {_SPECIAL}'),
    Mistake("endpoints-link-multicast", "endpoints", "subsets[0].addresses[0].ip", "ff02::1", f'"ff02::1" is a link-local multicast address, {_SPECIAL}'),
    Mistake("endpoints-hostname", "endpoints", "subsets[0].addresses[0].hostname", "One", f'"One" {_LABEL}'),
    Mistake("endpoints-port", "endpoints", "subsets[0].ports[1].port", 0, f"0 {_PORT}"),
    Mistake("endpoints-port-without-name", "endpoints", "subsets[0].ports[1].name", GONE, "each of several ports needs a name; add one"),
    Mistake("endpoints-protocol", "endpoints", "subsets[0].ports[1].protocol", "udp", f'"udp" {_PROTOCOL}'),
    Mistake("pod-hostname", "pod", "spec.hostname", "web.0", f'"web.0" {_LABEL}'),
    Mistake("pod-subdomain", "pod", "spec.subdomain", "Web", f'"Web" {_LABEL}'),
    Mistake("pod-port", "pod", "spec.containers[0].ports[0].containerPort", 70_000, f"70000 {_PORT}"),
    Mistake("pod-port-name", "pod", "spec.containers[0].ports[0].name", "a--b", f'"a--b" {_PORT_NAME}'),
    Mistake("pod-port-name-twice", "pod", "spec.containers[0].ports[1].name", "http", 'the name "http" is used twice; choose another'),
    Mistake("pod-port-protocol", "pod", "spec.containers[0].ports[1].protocol", "tcp", f'"tcp" {_PROTOCOL}'),
    Mistake("pod-ip", "pod", "status.podIP", "10.1.0", '"10.1.0" is not an IP address; write one such as 10.96.0.10', stored=True),
    Mistake("set-service-name", "set", "spec.serviceName", "db.shop", f'"db.shop" {_LABEL}'),
    Mistake("set-replicas", "set", "spec.replicas", -1, "-1 is below zero; write 0 or more"),
    Mistake("set-ordinals", "set", "spec.ordinals.start", -2, "-2 is below zero; write 0 or more"),
    Mistake("set-label", "set", "spec.template.metadata.labels.tier", "-back", f'"-back" {_VALUE}', "spec.template.metadata.labels[tier]"),
    Mistake("set-port", "set", "spec.template.spec.containers[0].ports[0].containerPort", 0, f"0 {_PORT}"),
    Mistake("deployment-hostname", "deployment", "spec.template.spec.hostname", "a.b", f'"a.b" {_LABEL}'),
    Mistake("deployment-replicas", "deployment", "spec.replicas", 65_025, "65025 is more than the 65024 addresses of the pod network; write a lower number", stored=True),
    Mistake("import-type", "import", "spec.type", "ClusterIP", '"ClusterIP" is not a type of ServiceImport; write ClusterSetIP or Headless', judged=False),
    Mistake("import-port", "import", "spec.ports[0].port", 65_536, f"65536 {_PORT_0}", judged=False),
]  # fmt: skip
ACCEPTED: Final = [
    Mistake("service", "service", "metadata.name", "web"),
    Mistake("headless", "headless", "metadata.name", "db"),
    Mistake("headless-without-ports", "headless", "spec.ports", []),
    Mistake("external", "external", "spec.externalName", "db.example.com."),
    Mistake("external-one-label", "external", "spec.externalName", "db"),
    Mistake("external-digits", "external", "spec.externalName", "10.0.0.1"),
    Mistake("target-0", "service", "spec.ports[0].targetPort", 0),
    Mistake("target-empty", "service", "spec.ports[0].targetPort", ""),
    Mistake("protocol-empty", "service", "spec.ports[0].protocol", ""),
    Mistake("same-number-two-protocols", "service", "spec.ports[1]", {"name": "udp", "port": 80, "protocol": "UDP"}),
    Mistake("two-families", "service", "spec", {"ports": [{"port": 80}], "ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "RequireDualStack"}),
    Mistake("label-empty", "service", "metadata.labels", {"a.example/B_c.d": ""}),
    Mistake("slice", "slice", "endpoints", []),
    Mistake("slice-port-without-number", "slice", "ports[0]", {"name": "all"}),
    Mistake("slice-port-0", "slice", "ports[0].port", 0),
    Mistake("slice-multicast", "slice", "endpoints[0].addresses", ["224.0.1.1"]),
    Mistake("endpoints", "endpoints", "subsets", []),
    Mistake("endpoints-same-port-name", "endpoints", "subsets[0].ports[1].name", "http"),
    Mistake("pod-name", "pod", "metadata.name", "web.0"),
    Mistake("set-hostname", "set", "spec.template.spec.hostname", "db"),
    Mistake("deployment-name", "deployment", "metadata.name", "web.v1"),
]  # fmt: skip
