"""What a child of a worker gets from the settings: what it may open, and its environment.

Separate from the services, because the children of each of them open sources of strangers under the
same rules: no credential of the platform, and none of its folders.
"""

import os
import pwd
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.hashing import JsonValue
from datarecs_core.resources.object_urls import is_object_url
from datarecs_runtime.blob_section import Blob
from datarecs_runtime.environment import process_environment
from datarecs_runtime.sections import Egress, Files, SecretReferences
from datarecs_runtime.settings import settings_files

USER = "datarecs"
"""The name of a user that the system does not know."""
INHERITED = ("PATH", "HOME", "LANG", "TZ")
"""Variables of this process that its child has, too: nothing of the platform."""
ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


class SourceSettings(Protocol):
    """The settings of a service whose children open sources."""

    @property
    def profile(self) -> Profile: ...
    @property
    def egress(self) -> Egress: ...
    @property
    def files(self) -> Files: ...
    @property
    def secrets(self) -> SecretReferences: ...
    @property
    def blob(self) -> Blob | None: ...


def egress_policy(settings: SourceSettings) -> Policy:
    """What connections may dial, in this process and in its child."""
    return Policy(
        purpose=Purpose.CONNECTION,
        profile=settings.profile,
        allowed_cidrs=settings.egress.allowed_cidrs.connection,
        denied_cidrs=settings.egress.denied_cidrs,
    )


def _roots(settings: SourceSettings) -> tuple[Path, ...]:
    """In profile `local` the project directory may be read; elsewhere only what is named."""
    if settings.files.roots or settings.profile is not Profile.LOCAL:
        return tuple(settings.files.roots)
    return (Path.cwd(),)


def private_places(settings: SourceSettings, scratch: Path) -> tuple[Path, ...]:
    """Folders and files of the platform, which no source reads."""
    folders = (scratch, settings.secrets.file_root, *settings.files.excluded)
    if settings.blob is not None and not is_object_url(settings.blob.url):
        folders = (Path(unquote(urlsplit(settings.blob.url).path)), *folders)
    named = (folder for folder in folders if folder is not None)
    return tuple(path.absolute() for path in (*named, *settings_files()))


def child_environment(scratch: Path) -> dict[str, str]:
    """Variables of the child: some of this process, and its folder for temporary files.

    Java and Hadoop start for users with a name only, but a container may run as any number.
    """
    inherited = {name: value for name, value in process_environment().items() if name in INHERITED}
    environment = {**inherited, "TMPDIR": str(scratch)}
    if not _user_has_name():
        environment |= {"HOME": str(scratch), "HADOOP_USER_NAME": USER, "SPARK_USER": USER}
    return environment


def template_environment(scratch: Path) -> dict[str, str]:
    """Variables of a process from which children are forked: imported libraries start no thread."""
    return child_environment(scratch) | {
        "OPENBLAS_NUM_THREADS": "1",
        "JE_ARROW_MALLOC_CONF": "background_thread:false",
    }


def _user_has_name() -> bool:
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def surroundings_frame(settings: SourceSettings, scratch: Path) -> dict[str, JsonValue]:
    """What a child may open; no secret."""
    policy = egress_policy(settings)
    return {
        "roots": [str(root) for root in _roots(settings)],
        "files_owner": None if settings.files.owner is None else str(settings.files.owner),
        "excluded": [str(path) for path in private_places(settings, scratch)],
        "profile": policy.profile.value,
        "allowed_cidrs": [str(network) for network in policy.allowed_cidrs],
        "denied_cidrs": [str(network) for network in policy.denied_cidrs],
        # To keep sources out of it; the child has no credentials of the store.
        "blob_url": "" if settings.blob is None else settings.blob.url,
        "blob_endpoint": _store_endpoint(settings),
        "blob_region": None if settings.blob is None else settings.blob.region,
    }


def _store_endpoint(settings: SourceSettings) -> str | None:
    """The server of artefacts in S3; the library also reads it from the environment."""
    if settings.blob is None:
        return None
    if settings.blob.endpoint is not None or not settings.blob.url.startswith("s3:"):
        return settings.blob.endpoint
    variables = process_environment()
    return next((variables[name] for name in ENDPOINT_VARIABLES if variables.get(name)), None)
