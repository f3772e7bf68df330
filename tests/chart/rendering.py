"""Render the chart with Helm's library, and the values for which the tests do it."""

import copy
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "datarecs"
EXAMPLES = CHART / "examples"
LONG_NAME = "a-release-with-the-longest-name-that-helm-accepts-53c"
TENANT = "01900000-0000-7000-8000-000000000001"
SERVICES = (
    "core-api",
    "run-controller",
    "reconciliation-worker",
    "email-notifier",
    "resource-controller",
    "capture-worker",
    "iceberg-sink",
    "webhook-service",
)

KubeObject = dict[str, Any]
Values = dict[str, Any]


def parse(text: str) -> Iterator[KubeObject]:
    """The objects of a YAML stream; documents with comments alone are left out."""
    for document in YAML(typ="safe", pure=True).load_all(text):
        if document is not None:
            yield document


@cache
def _example() -> Values:
    return next(parse((EXAMPLES / "values.yaml").read_text(encoding="utf-8")))


def example() -> Values:
    """The values of `examples/values.yaml`, which are complete."""
    return copy.deepcopy(_example())


def site() -> Values:
    """The values of `examples/remote-workers-values.yaml`: a site with capture-workers alone."""
    text = (EXAMPLES / "remote-workers-values.yaml").read_text(encoding="utf-8")
    return copy.deepcopy(next(parse(text)))


def merge(values: Values, changes: Mapping[str, Any]) -> Values:
    """The values with these changes; mappings are merged, as Helm does."""
    merged = dict(values)
    for name, change in changes.items():
        before = merged.get(name)
        if isinstance(before, dict) and isinstance(change, Mapping):
            merged[name] = merge(before, change)
        else:
            merged[name] = copy.deepcopy(change)
    return merged


ALL_ON: Values = {
    "image": {
        "digests": {"datarecs": f"sha256:{'a' * 64}", "datarecs-spark": f"sha256:{'b' * 64}"},
        "pullSecrets": ["registry-login"],
    },
    "tenantSecrets": [{"tenant": TENANT, "existingSecret": "tenant-acme"}],
    "settings": {
        "EGRESS__DENIED_CIDRS": ["198.51.100.7/32", "2001:4860::/32"],
        "MAIL__RECIPIENT_DOMAINS": {TENANT: ["example.com"]},
        "LIMITS__REQUESTS_PER_MINUTE": 1_200_000,
        "LIVE__NOTIFY": False,
    },
    "ingress": {"annotations": {"cert-manager.io/cluster-issuer": "internal"}},
    "network": {
        "to": {
            "kubernetes": {"ports": [6443], "peers": [{"ipBlock": {"cidr": "192.0.2.9/32"}}]},
            "control": {"ports": [9443]},
        }
    },
    "blob": {"caSecret": "datarecs-blob-ca"},
    "launcher": {"backend": "argo"},
    "remoteWorkers": {"issuer": "https://login.example.com/realms/platform"},
    "topics": {"mode": "hook"},
    "monitoring": {"podMonitor": True, "rules": True, "labels": {"release": "prometheus"}},
    "defaults": {
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "priorityClassName": "platform",
        "podAnnotations": {"example.com/revision": "1"},
        "podLabels": {"team": "data"},
    },
    "services": {
        "reconciliation-worker": {
            "serviceAccountAnnotations": {"example.com/role": "datarecs-worker"},
            "settings": {"FILES__ROOTS": ["/data/files"]},
            "extraVolumes": [{"name": "files", "persistentVolumeClaim": {"claimName": "files"}}],
            "extraVolumeMounts": [{"name": "files", "mountPath": "/data/files", "readOnly": True}],
        },
        "webhook-service": {
            "autoscaling": {"min": 2, "max": 6, "cpuPercent": 80},
        },
    },
}
FILE_BLOBS: Values = {
    "blob": {
        "url": "file:///data/blobs",
        "existingSecret": "",
        "existingClaim": "artefacts",
    }
}
KNATIVE: Values = {
    "eventing": {
        "mode": "knative",
        "brokerUrl": "http://kafka-broker-ingress.knative-eventing.svc/datarecs/default",
        "deadLetterSink": {"ref": {"apiVersion": "v1", "kind": "Service", "name": "dead-letters"}},
    },
    "kafka": {"bootstrap": ""},
}
JOBS: Values = {"migrations": {"mode": "job"}, "topics": {"mode": "job"}}
BARE: Values = {
    "migrations": {"mode": "none"},
    "network": {"policies": False},
    "ingress": {"enabled": False},
    "database": {"caSecret": ""},
    "kafka": {"caSecret": ""},
    "mail": {"existingSecret": ""},
}
EXTERNAL = frozenset(
    {
        ("Secret", name)
        for name in (
            *("datarecs-database", "datarecs-db-ca", "datarecs-kafka", "datarecs-cluster-ca-cert"),
            *("datarecs-keys", "datarecs-blob", "datarecs-mail", "datarecs-tls"),
            "datarecs-blob-ca",
            *("registry-login", "tenant-acme"),
        )
    }
    | {("PersistentVolumeClaim", "files"), ("PersistentVolumeClaim", "artefacts")}
)
"""What these values name and the operator creates."""


def matrix() -> dict[str, tuple[str, Values]]:
    """Name of a case to release name and values."""
    return {
        "example": ("datarecs", example()),
        "all-on": ("datarecs", merge(example(), ALL_ON)),
        "file-blobs": ("datarecs", merge(example(), FILE_BLOBS)),
        "jobs": ("datarecs", merge(example(), JOBS)),
        "knative": ("datarecs", merge(example(), KNATIVE)),
        "bare": ("datarecs", merge(example(), BARE)),
        "long-name": (LONG_NAME, merge(merge(example(), ALL_ON), JOBS)),
    }


def render_files(values: Values, *, release: str = "datarecs") -> dict[str, str]:
    """Template to text. Raises helm_python.HelmError, with the schema's or the chart's message."""
    import helm_python as helm  # noqa: PLC0415  may not be installed

    helm.validate_release_name(release)
    with helm.Chart.load(str(CHART)) as chart:
        chart.validate_schema(values)
        rendered: dict[str, str] = chart.render(values, name=release, namespace="datarecs")
    return rendered


def render(values: Values, *, release: str = "datarecs") -> list[KubeObject]:
    """The objects that an installation creates, hooks included."""
    texts = render_files(values, release=release)
    manifests = (text for name, text in sorted(texts.items()) if name.endswith(".yaml"))
    return copy.deepcopy([one for text in manifests for one in _parsed(text)])


@cache
def _parsed(text: str) -> tuple[KubeObject, ...]:
    return tuple(parse(text))


def render_case(name: str) -> list[KubeObject]:
    release, values = matrix()[name]
    return render(values, release=release)
