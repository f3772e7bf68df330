"""The sections of captures: slots and executors of a worker, and the control API of remote ones.

A separate module because only capture-worker and core-api have them.
"""

from datetime import timedelta
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from datarecs_core.captures.request import ExecutionClass
from datarecs_runtime.sections import Section, Worker
from datarecs_runtime.values import AsList, Duration, Texts

_HEADER = r"^[A-Za-z0-9-]{1,64}$"


def _safe_url(text: str) -> str:
    """https, or http on this machine, because a token is sent there."""
    parts = urlsplit(text)
    if not parts.hostname or parts.username or parts.query or parts.fragment:
        raise ValueError("not the address of a server, such as https://datarecs.example.com")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
        raise ValueError("a token is sent there, so it must be https, or http on loopback")
    return text.rstrip("/")


def is_loopback(host: str) -> bool:
    """Whether the host is this machine, without a look-up."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


ServerUrl = Annotated[str, AfterValidator(_safe_url)]
HeaderName = Annotated[str, Field(pattern=_HEADER)]


class CaptureChoice(Section):
    """Which captures a capture-worker takes."""

    lanes: Texts = ()
    """Lanes of captures that this worker takes. Empty: every lane, also of captures without one."""
    execution_classes: Annotated[frozenset[ExecutionClass], AsList] = frozenset()
    """Execution classes that this worker takes, such as `BATCH,HEAVY`. Empty: every class."""


class CaptureSlots(CaptureChoice):
    max_parallelism: int = Field(default=1, ge=0, le=64)
    """Items of captures at the same time in one worker; each has its own child. With 2 or more, one
    slot takes no groups of files, so that plans are never behind them. 0: only the maintenance of
    the queue and the catalogue."""
    scratch_dir: Path = Path("/tmp/datarecs")  # noqa: S108  only a default; `up` and images set it
    """Folder for what children report; a second worker with it waits. Files are removed at the end
    of an item and, after a kill, at the next start."""
    child_memory_mb: int = Field(default=4096, ge=512)
    """Resident memory, in MiB, of a child and its processes; above it the item fails as
    OUT_OF_MEMORY."""


class Enabled(Section):
    enabled: bool = True
    """Whether this worker takes this kind of work."""


class Executor(Section):
    planner: Enabled = Enabled()
    """Lists the tables and views of a connection."""
    default: Enabled = Enabled()
    """Reads the definition of a table or view."""
    snapshot_planner: Enabled = Enabled()
    """Lists the files of a snapshot; captures a table of a database."""
    file_group: Enabled = Enabled()
    """Reads a group of files."""
    snapshot_finalize: Enabled = Enabled()
    """Completes and publishes the statistics of a snapshot."""


class WorkerMode(StrEnum):
    LOCAL = "local"
    REMOTE = "remote"


class WorkerOidc(Section):
    issuer: ServerUrl | None = None
    """Issuer of OpenID Connect that gives this worker its tokens, as written in `iss`; its
    configuration is at `/.well-known/openid-configuration` below it."""
    client_id: str = ""
    """The client of this worker there."""
    client_secret: SecretStr | None = None
    """Its secret, usually in a file named by DATARECS_WORKER__OIDC__CLIENT_SECRET_FILE. No default,
    because it is a credential."""
    token_refresh_skew: Duration = Field(
        default=timedelta(seconds=30), ge=timedelta(0), le=timedelta(minutes=10)
    )
    """How long before its end a token is replaced. 30 s is more than a request takes."""
    connect_timeout: Duration = Field(
        default=timedelta(seconds=10), ge=timedelta(seconds=1), le=timedelta(minutes=5)
    )
    """Time to connect to the issuer and to the control API."""


class TokenHeaders(Section):
    session_header: HeaderName | None = None
    """Header with the token of a remote worker, such as `x-datarecs-session`, for a proxy that
    needs the Authorization header itself; the same in core-api and its workers. Not set:
    `authorization_header`."""
    authorization_header: HeaderName = "Authorization"
    """Header with the token, as `Bearer …`, if there is no `session_header`."""

    @property
    def token_header(self) -> str:
        """The header that has the token."""
        return self.session_header or self.authorization_header


class RemoteWorker(TokenHeaders):
    mode: WorkerMode = WorkerMode.LOCAL
    """`local`: over the database. `remote`: over the control API of core-api, without database,
    store of artefacts and upkeep; a remote worker takes no work of `snapshot_finalize`."""
    api_url: ServerUrl | None = None
    """Address of core-api, such as `https://datarecs.example.com`, in mode `remote`."""
    oidc: WorkerOidc = WorkerOidc()
    """The client credentials of the worker, in mode `remote`."""

    @model_validator(mode="after")
    def _remote_is_complete(self) -> Self:
        needed = {
            "API_URL": self.api_url,
            "OIDC__ISSUER": self.oidc.issuer,
            "OIDC__CLIENT_ID": self.oidc.client_id,
            "OIDC__CLIENT_SECRET": self.oidc.client_secret,
        }
        if self.mode is WorkerMode.REMOTE and not all(needed.values()):
            missing = ", ".join(f"DATARECS_WORKER__{name}" for name in needed if not needed[name])
            raise ValueError(f"mode `remote` needs {missing}")
        return self


class CaptureWorker(CaptureSlots, RemoteWorker):
    """Section `worker` of a capture-worker."""


class WorkerApi(Section):
    enabled: bool = False
    """Whether core-api has the control API, with which capture-workers outside of the reach of the
    database take and report work. False: it has no such route."""
    issuer: ServerUrl | None = None
    """Issuer of OpenID Connect whose tokens it accepts from workers."""
    audience: str = Field(default="datarecs-api", min_length=1)
    """Value that `aud` of a token must contain."""

    @model_validator(mode="after")
    def _api_is_complete(self) -> Self:
        if self.enabled and self.issuer is None:
            raise ValueError("the control API needs DATARECS_WORKER__API__ISSUER")
        return self


class WorkerAccess(TokenHeaders):
    """Section `worker` of core-api."""

    api: WorkerApi = WorkerApi()
    """The control API of remote workers."""


class AnyWorker(Worker, CaptureChoice, RemoteWorker, WorkerAccess):
    """Section `worker` of all services together, for pages and checks."""
