"""Triggers a run, and reads the names of its job's sources."""

from collections.abc import Mapping

from datarecs_cli.client import Api, ApiRequest, Json, path_of
from datarecs_cli.refusals import RefusedError
from datarecs_runtime.clock import UuidV7Ids


def trigger(api: Api, job: tuple[str, str], body: Json, *, key: str | None = None) -> Json:
    """The new run, or the run that this key already created.

    Args:
        api: the API of the server.
        job: namespace and name.
        body: parameters, reason.
        key: default a new key, so that a retry after a lost answer creates no second run.
    """
    namespace, name = job
    request = ApiRequest(
        method="POST",
        path=path_of("jobs", name, "runs"),
        params={"namespace": namespace},
        headers={"Idempotency-Key": key or str(UuidV7Ids().new())},
        body=body,
    )
    return api.send(request).json()


def retry(api: Api, run_id: str, *, reason: str | None) -> Json:
    """The new run with the parameters of this one, which must have ended."""
    request = ApiRequest(
        method="POST",
        path=path_of("runs", run_id, "retry"),
        headers={"Idempotency-Key": str(UuidV7Ids().new())},
        body={} if reason is None else {"reason": reason},
    )
    return api.send(request).json()


def source_names(api: Api, run: Json) -> tuple[str, ...]:
    """Names of the sources in the job's current declaration; none if it cannot be read."""
    name = run.get("job")
    if not name:
        return ()
    try:
        job = api.get("jobs", str(name))
    except RefusedError:
        return ()
    spec = job.get("spec")
    sources = spec.get("sources") if isinstance(spec, Mapping) else None
    if not isinstance(sources, list):
        return ()
    return tuple(str(one.get("name")) for one in sources if isinstance(one, Mapping))
