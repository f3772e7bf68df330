"""A Kubernetes API server in a dictionary: Workflows alone, with the answers of the real one.

It passes `conformance.kubernetes`, which runs against a real kube-apiserver too (`make kubeapi`).
There is no controller: a test writes statuses as Argo's controller does.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

TOKEN = "a-token"  # noqa: S105  of the server in this process
_BASE = re.compile(r"/apis/argoproj.io/v1alpha1/namespaces/([^/]+)/workflows(?:/([^/]+))?")
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_METADATA_LIST = "PartialObjectMetadataList"
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "AlreadyExists",
    415: "UnsupportedMediaType",
    422: "Invalid",
}

Document = dict[str, Any]


class _RefusedError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class FakeKubernetes:
    """Use `transport` as the network of a `KubernetesApi`."""

    namespaces: frozenset[str] = frozenset({"recon"})
    token: str = TOKEN
    quota: int | None = None
    """Most Workflows of a namespace, as a ResourceQuota limits them."""
    outages: list[int | Exception] = field(default_factory=list)
    """Statuses, or failures of the network, of the next requests."""
    unanswered: list[str] = field(default_factory=list)
    """Methods whose next request is carried out and whose answer is lost."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    workflows: dict[tuple[str, str], Document] = field(default_factory=dict)

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._handle)

    def patch(self, namespace: str, name: str, change: Mapping[str, object]) -> None:
        """What a controller writes."""
        _merge(self.workflows[namespace, name], change)

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append((request.method, request.url.path))
        if self.outages:
            outage = self.outages.pop(0)
            if isinstance(outage, Exception):
                raise outage
            headers = {"Retry-After": "7"} if outage == httpx.codes.TOO_MANY_REQUESTS else {}
            return httpx.Response(
                outage, json=_status(outage, "the server is busy"), headers=headers
            )
        try:
            status, document = self._answer(request)
        except _RefusedError as refusal:
            return httpx.Response(refusal.status, json=_status(refusal.status, str(refusal)))
        if request.method in self.unanswered:
            self.unanswered.remove(request.method)
            raise httpx.ReadTimeout("the answer was lost", request=request)
        return httpx.Response(status, json=document)

    def _answer(self, request: httpx.Request) -> tuple[int, Document]:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            raise _RefusedError(401, "Unauthorized")
        place = _BASE.fullmatch(request.url.path)
        if place is None:
            raise _RefusedError(404, "the server could not find the requested resource")
        namespace, name = place.groups()
        match request.method, name:
            case "POST", None:
                return 201, self._create(namespace, json.loads(request.content))
            case "GET", None:
                return 200, self._list(namespace, request)
            case "GET", str():
                return 200, self._existing(namespace, name)
            case "PATCH", str():
                return 200, self._patch(self._existing(namespace, name), request)
            case "DELETE", str():
                self._existing(namespace, name)
                return 200, self.workflows.pop((namespace, name))
        raise _RefusedError(405, "the server does not allow this method")

    def _create(self, namespace: str, workflow: Document) -> Document:
        metadata = workflow["metadata"]
        name, labels = metadata["name"], metadata.get("labels", {})
        if metadata.get("namespace", namespace) != namespace:
            raise _RefusedError(400, "the namespace of the object does not match the request")
        if namespace not in self.namespaces:
            raise _RefusedError(404, f'namespaces "{namespace}" not found')
        for label, value in labels.items():
            if _LABEL.fullmatch(value) is None:
                raise _RefusedError(422, f"metadata.labels: Invalid value: {label}={value!r}")
        if not isinstance(workflow["spec"].get("activeDeadlineSeconds", 0), int):
            message = "spec.activeDeadlineSeconds: Invalid value: must be of type integer"
            raise _RefusedError(422, message)
        held = sum(place[0] == namespace for place in self.workflows)
        if self.quota is not None and held >= self.quota:
            limit = f"limited: count/workflows.argoproj.io={self.quota}"
            raise _RefusedError(403, f'"{name}" is forbidden: exceeded quota: runs, {limit}')
        if (namespace, name) in self.workflows:
            raise _RefusedError(409, f'workflows.argoproj.io "{name}" already exists')
        self.workflows[namespace, name] = workflow
        return workflow

    def _patch(self, workflow: Document, request: httpx.Request) -> Document:
        if request.headers.get("Content-Type") != "application/merge-patch+json":
            raise _RefusedError(415, "the body of the request was in an unknown format")
        _merge(workflow, json.loads(request.content))
        return workflow

    def _existing(self, namespace: str, name: str) -> Document:
        workflow = self.workflows.get((namespace, name))
        if workflow is None:
            raise _RefusedError(404, f'workflows.argoproj.io "{name}" not found')
        return workflow

    def _list(self, namespace: str, request: httpx.Request) -> Document:
        """By name, a page after the place that the last page named."""
        query = request.url.params
        items = [
            workflow
            for (owner, _), workflow in sorted(self.workflows.items())
            if owner == namespace and _selected(workflow, query.get("labelSelector", ""))
        ]
        start, limit = int(query.get("continue", "0")), int(query.get("limit", "0"))
        end = start + limit if limit else len(items)
        is_short = _METADATA_LIST in request.headers.get("Accept", "")
        page = [_short(item) if is_short else item for item in items[start:end]]
        metadata = {"continue": str(end)} if end < len(items) else {}
        kind = _METADATA_LIST if is_short else "WorkflowList"
        return {"kind": kind, "metadata": metadata, "items": page}


def _short(workflow: Document) -> Document:
    return {"kind": "PartialObjectMetadata", "metadata": workflow["metadata"]}


def _selected(workflow: Document, selector: str) -> bool:
    labels = workflow["metadata"].get("labels", {})
    for term in filter(None, selector.split(",")):
        name, differs, value = term.partition("!=")
        if (labels.get(name) == value) if differs else (name not in labels):
            return False
    return True


def _merge(target: Document, change: Mapping[str, object]) -> None:
    """RFC 7386."""
    for name, value in change.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict):
            inner = target.setdefault(name, {})
            _merge(inner, value)
        else:
            target[name] = value


def _status(code: int, message: str) -> Document:
    reason = _REASONS.get(code, "InternalError")
    return {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
