"""What no schema of Kubernetes says: rules over rendered objects; each function lists faults.

Modelled on the checks of linters for manifests, and on the security page.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from promql_parser import parse as parse_promql

from datarecs_application.metrics import CATALOGUE
from datarecs_runtime.settings import EXEMPT_NAMES, PREFIX, describe, known_names
from tests.chart.rendering import EXTERNAL, KubeObject

Objects = Sequence[KubeObject]
Check = Callable[[Objects], Iterator[str]]

NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
LABEL_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
CPU = re.compile(r"[1-9][0-9]*m?|[0-9]+\.[0-9]+")
BYTES = re.compile(r"[1-9][0-9]*(Ki|Mi|Gi|Ti)")
IMAGE = re.compile(r"[a-z0-9./:_-]+(@sha256:[0-9a-f]{64}|:(?!latest$)[A-Za-z0-9_][\w.-]*)")
PROBES = {"startupProbe": "/startupz", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
ARGO_VERBS = {"create", "get", "list", "watch", "patch", "delete"}
HOOK = "helm.sh/hook"
ENV_FROM = (("secretRef", "Secret"), ("configMapRef", "ConfigMap"))


def name_of(one: KubeObject) -> str:
    return f"{one['kind']} {one['metadata']['name']}"


def of_kind(objects: Objects, *kinds: str) -> Iterator[KubeObject]:
    return (one for one in objects if one["kind"] in kinds)


def templates(objects: Objects) -> Iterator[tuple[KubeObject, Mapping[str, Any]]]:
    """Every Deployment and Job with its pod template, every WorkflowTemplate with its pods."""
    for one in of_kind(objects, "Deployment", "Job"):
        yield one, one["spec"]["template"]
    for one in of_kind(objects, "WorkflowTemplate"):
        for template in one["spec"]["templates"]:
            yield one, _pod_of_workflow(one["spec"], template)


def _pod_of_workflow(spec: Mapping[str, Any], template: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pod that Argo makes of a template, without its containers."""
    names = {
        *("serviceAccountName", "automountServiceAccountToken", "securityContext", "volumes"),
        *("imagePullSecrets", "nodeSelector", "tolerations", "affinity"),
    }
    pod = {name: value for name, value in spec.items() if name in names}
    pod["enableServiceLinks"] = json.loads(spec["podSpecPatch"])["enableServiceLinks"]
    container = {"name": "main", **template["container"]}
    return {"metadata": spec["podMetadata"], "spec": {**pod, "containers": [container]}}


def containers(objects: Objects) -> Iterator[tuple[KubeObject, Mapping[str, Any]]]:
    for one, template in templates(objects):
        pod = template["spec"]
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            yield one, container


def _selects(selector: Mapping[str, str], template: Mapping[str, Any]) -> bool:
    return bool(selector.items() <= template["metadata"]["labels"].items())


def wrong_selectors(objects: Objects) -> Iterator[str]:
    """A selector matches the pods it is made for, and no Deployment selects those of another."""
    pods = [template for _, template in templates(objects)]
    for one in of_kind(objects, "Deployment"):
        selector = one["spec"]["selector"]["matchLabels"]
        if sum(_selects(selector, pod) for pod in pods) != 1:
            yield f"{name_of(one)} does not select exactly its pods"
        if not _selects(selector, one["spec"]["template"]):
            yield f"{name_of(one)} does not select its pods"
    for one in of_kind(objects, "Service", "PodDisruptionBudget", "NetworkPolicy"):
        selector = one["spec"].get("podSelector", one["spec"].get("selector", {}))
        if not any(_selects(selector.get("matchLabels", selector), pod) for pod in pods):
            yield f"{name_of(one)} selects no pod"


def wrong_ports(objects: Objects) -> Iterator[str]:
    """Named ports of Services, policies, probes and monitors are ports of the selected pods."""
    for one, container in containers(objects):
        names = {port["name"] for port in container.get("ports", ())}
        for probe in PROBES:
            if probe in container and container[probe]["httpGet"]["port"] not in names:
                yield f"{name_of(one)}: {probe} has no port"
    for one in of_kind(objects, "Service", "NetworkPolicy", "PodMonitor"):
        known = _ports_behind(one, objects)
        for port in _named_ports(one):
            if port not in known:
                yield f"{name_of(one)}: no container has the port {port}"


def _ports_behind(one: KubeObject, objects: Objects) -> set[str]:
    spec = one["spec"]
    selector = spec.get("podSelector", spec.get("selector"))
    selector = selector.get("matchLabels", selector)
    return {
        port["name"]
        for _, template in templates(objects)
        if _selects(selector, template)
        for container in template["spec"]["containers"]
        for port in container.get("ports", ())
    }


def _named_ports(one: KubeObject) -> Iterator[str]:
    spec = one["spec"]
    if one["kind"] == "Service":
        yield from (port["targetPort"] for port in spec["ports"])
    elif one["kind"] == "PodMonitor":
        yield from (endpoint["port"] for endpoint in spec["podMetricsEndpoints"])
    else:
        for rule in spec.get("ingress") or ():
            yield from (port["port"] for port in rule["ports"])


def wrong_names(objects: Objects) -> Iterator[str]:
    """Names, labels and quantities have the forms of Kubernetes; no object exists twice."""
    seen = set()
    for one in objects:
        name = one["metadata"]["name"]
        if not NAME.fullmatch(name) or len(name) > 63:
            yield f"{name_of(one)}: not a name"
        if name_of(one) in seen:
            yield f"{name_of(one)} exists twice"
        seen.add(name_of(one))
        pods = [template["metadata"] for _, template in templates([one])]
        for metadata in (one["metadata"], *pods):
            for key, value in metadata.get("labels", {}).items():
                if not LABEL_KEY.fullmatch(key) or not LABEL_VALUE.fullmatch(str(value)):
                    yield f"{name_of(one)}: label {key}={value}"


def wrong_quantities(objects: Objects) -> Iterator[str]:
    """Every container requests CPU and memory, and has a limit of memory."""
    for one, container in containers(objects):
        resources = container.get("resources", {})
        for where in ("requests", "limits"):
            for name, quantity in resources.get(where, {}).items():
                form = CPU if name == "cpu" else BYTES
                if not form.fullmatch(str(quantity)):
                    yield f"{name_of(one)}: {where}.{name} is {quantity}"
        if not {"cpu", "memory"} <= resources.get("requests", {}).keys():
            yield f"{name_of(one)}: no requests"
        if "memory" not in resources.get("limits", {}):
            yield f"{name_of(one)}: no limit of memory"


def dangling_references(objects: Objects) -> Iterator[str]:
    """Every Secret, ConfigMap, claim and account that a pod names exists or is the operator's."""
    present = {(one["kind"], one["metadata"]["name"]) for one in objects} | EXTERNAL
    for one, template in templates(objects):
        for reference in _references(template["spec"]):
            if reference not in present:
                yield f"{name_of(one)}: {' '.join(reference)} does not exist"


def _references(pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "ServiceAccount", pod["serviceAccountName"]
    yield from (("Secret", one["name"]) for one in pod.get("imagePullSecrets", ()))
    for container in pod["containers"]:
        for source in container.get("envFrom", ()):
            yield from (
                (kind, source[field]["name"]) for field, kind in ENV_FROM if field in source
            )
    for volume in pod["volumes"]:
        yield from _references_of_volume(volume)


def _references_of_volume(volume: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if claim := volume.get("persistentVolumeClaim"):
        yield "PersistentVolumeClaim", claim["claimName"]
    if secret := volume.get("secret"):
        yield "Secret", secret["secretName"]
    for source in volume.get("projected", {}).get("sources", ()):
        yield "Secret", source["secret"]["name"]


def inline_secrets(objects: Objects) -> Iterator[str]:
    """No object holds a secret: no Secret, no secret setting as a variable, none in a command."""
    secret_names = {one.name for one in describe() if one.secret}
    for one in of_kind(objects, "Secret"):
        yield f"{name_of(one)} is part of the chart"
    for one, container in containers(objects):
        for variable in container.get("env", ()):
            if variable["name"] in secret_names:
                yield f"{name_of(one)}: {variable['name']} is a secret"
        texts = [*container["args"], *(str(v.get("value", "")) for v in container["env"])]
        for text in texts:
            if re.search(r"://[^/\s:@]+:[^/\s@]+@", text):
                yield f"{name_of(one)}: a password in a URL"


def wrong_images(objects: Objects) -> Iterator[str]:
    for one, container in containers(objects):
        if not IMAGE.fullmatch(container["image"]):
            yield f"{name_of(one)}: image {container['image']} has neither tag nor digest"


def weak_pods(objects: Objects) -> Iterator[str]:
    """Pod Security restricted, a read-only root, no variables of Services, a sized /tmp."""
    for one, template in templates(objects):
        pod = template["spec"]
        security = pod.get("securityContext", {})
        expected = {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        if not expected.items() <= security.items():
            yield f"{name_of(one)}: the pod may run as root or without seccomp"
        if pod.get("enableServiceLinks") is not False:
            yield f"{name_of(one)}: Services become variables"
        if any("sizeLimit" not in v["emptyDir"] for v in pod["volumes"] if "emptyDir" in v):
            yield f"{name_of(one)}: a folder without limit"
        if pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}:
            yield f"{name_of(one)}: namespaces of the node"
    for one, container in containers(objects):
        expected = {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        if container.get("securityContext") != expected:
            yield f"{name_of(one)}: the container has more rights than it needs"


def wrong_probes(objects: Objects) -> Iterator[str]:
    """Three probes of three paths; liveness never checks a dependency."""
    for one in of_kind(objects, "Deployment"):
        for container in one["spec"]["template"]["spec"]["containers"]:
            for probe, path in PROBES.items():
                if container.get(probe, {}).get("httpGet", {}).get("path") != path:
                    yield f"{name_of(one)}: {probe} is not {path}"
            if "preStop" not in container.get("lifecycle", {}):
                yield f"{name_of(one)}: stops before endpoints forget it"


def wrong_scaling(objects: Objects) -> Iterator[str]:
    """Every Deployment has a budget that allows drains; an autoscaler alone sets replicas."""
    budgets = {
        one["metadata"]["name"]: one["spec"] for one in of_kind(objects, "PodDisruptionBudget")
    }
    scaled = {
        one["spec"]["scaleTargetRef"]["name"]: one["spec"]
        for one in of_kind(objects, "HorizontalPodAutoscaler")
    }
    deployments = {one["metadata"]["name"]: one for one in of_kind(objects, "Deployment")}
    for name, one in deployments.items():
        budget = budgets.get(name, {})
        if budget.get("maxUnavailable") != 1:
            yield f"{name_of(one)}: its budget does not allow exactly one pod to leave"
        if budget.get("unhealthyPodEvictionPolicy") != "AlwaysAllow":
            yield f"{name_of(one)}: its budget protects broken pods"
        if (name in scaled) == ("replicas" in one["spec"]):
            yield f"{name_of(one)}: replicas and an autoscaler, or neither"
    for name, spec in scaled.items():
        if name not in deployments:
            yield f"the autoscaler of {name} has no target"
        if spec["minReplicas"] > spec["maxReplicas"]:
            yield f"the autoscaler of {name} has min above max"


def open_networks(objects: Objects) -> Iterator[str]:
    """Every pod has a policy for both directions, and reaches DNS."""
    policies = [one["spec"] for one in of_kind(objects, "NetworkPolicy")]
    for one, template in templates(objects):
        mine = [p for p in policies if _selects(p["podSelector"]["matchLabels"], template)]
        if not any(policy["policyTypes"] == ["Ingress", "Egress"] for policy in mine):
            yield f"{name_of(one)}: no policy for both directions"
        rules = [rule for policy in mine for rule in policy.get("egress") or ()]
        if not any({"protocol": "UDP", "port": 53} in rule["ports"] for rule in rules):
            yield f"{name_of(one)}: does not reach DNS"
        if any(not rule.get("to") or not rule.get("ports") for rule in rules):
            yield f"{name_of(one)}: a rule for every address or port"


def excess_rights(objects: Objects) -> Iterator[str]:
    """Roles of the namespace alone, with the verbs of the table alone."""
    for one in of_kind(objects, "ClusterRole", "ClusterRoleBinding"):
        yield f"{name_of(one)} reaches beyond the namespace"
    for one in of_kind(objects, "Role"):
        for rule in one["rules"]:
            if not set(rule["verbs"]) <= ARGO_VERBS or rule["apiGroups"] != ["argoproj.io"]:
                yield f"{name_of(one)}: {rule}"


def needless_tokens(objects: Objects) -> Iterator[str]:
    """Only pods with a Role mount a token."""
    roles = {one["metadata"]["name"] for one in of_kind(objects, "Role")}
    for one in of_kind(objects, "ServiceAccount"):
        if one.get("automountServiceAccountToken") is not False:
            yield f"{name_of(one)} mounts a token everywhere"
    for one, template in templates(objects):
        pod = template["spec"]
        if pod.get("automountServiceAccountToken") != (pod["serviceAccountName"] in roles):
            yield f"{name_of(one)}: a token without a Role, or a Role without a token"


def early_hooks(objects: Objects) -> Iterator[str]:
    """A hook before the installation uses only hooks that run before it, and what exists."""

    def weight(one: KubeObject) -> int:
        return int(one["metadata"]["annotations"]["helm.sh/hook-weight"])

    hooks = [one for one in objects if HOOK in one["metadata"].get("annotations", {})]
    for one, template in templates(hooks):
        before = {
            (other["kind"], other["metadata"]["name"])
            for other in hooks
            if weight(other) < weight(one)
        }
        for reference in _references(template["spec"]):
            if reference not in before | EXTERNAL:
                yield f"{name_of(one)}: {' '.join(reference)} does not exist yet"


def unknown_settings(objects: Objects) -> Iterator[str]:
    """Every variable DATARECS_… is a setting, once; every file is a secret setting."""
    known = known_names() | EXEMPT_NAMES
    secrets = {one.name for one in describe() if one.secret}
    files = {name.removeprefix(PREFIX).lower() for name in secrets}
    for one, container in containers(objects):
        names = [variable["name"] for variable in container["env"]]
        for name in names:
            if name.startswith(PREFIX) and name not in known:
                yield f"{name_of(one)}: {name} is not a setting"
            if names.count(name) > 1:
                yield f"{name_of(one)}: {name} twice"
    for one, template in templates(objects):
        for file in _secret_files(template["spec"]):
            if file not in files and not file.endswith("-ca.crt"):
                yield f"{name_of(one)}: {file} is no secret setting"


def _secret_files(pod: Mapping[str, Any]) -> Iterator[str]:
    for volume in pod["volumes"]:
        for source in volume.get("projected", {}).get("sources", ()):
            yield from (item["path"] for item in source["secret"]["items"])


def wrong_rules(objects: Objects) -> Iterator[str]:
    """Alerts parse and name only metrics of the catalogue."""
    known = {one.full_name for one in CATALOGUE.values()}
    known |= {f"{name}_{end}" for name in known for end in ("count", "sum", "bucket")}
    for one in of_kind(objects, "PrometheusRule"):
        for rule in (rule for group in one["spec"]["groups"] for rule in group["rules"]):
            try:
                parse_promql(rule["expr"])
            except ValueError as cause:
                yield f"{rule['alert']}: {cause}"
            for metric in re.findall(r"\bdatarecs_\w+", rule["expr"]):
                if metric not in known:
                    yield f"{rule['alert']}: there is no metric {metric}"


CHECKS: tuple[Check, ...] = (
    wrong_selectors,
    wrong_ports,
    wrong_names,
    wrong_quantities,
    dangling_references,
    inline_secrets,
    wrong_images,
    weak_pods,
    wrong_probes,
    wrong_scaling,
    open_networks,
    excess_rights,
    needless_tokens,
    early_hooks,
    unknown_settings,
    wrong_rules,
)
