"""States of a generation of statistics, and what publishes it.

Readers see exactly the generation that `targets-active` of their snapshot names. The payloads of
both pointers are written and read here. Spec catalogue-storage 9.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from datarecs_core.hashing import canonical_json
from datarecs_core.values import instant_text


class GenerationState(StrEnum):
    DRAFT = "DRAFT"
    """Is written; no reader sees it."""
    PUBLISHING = "PUBLISHING"
    """Accepts no more records."""
    PUBLISHED = "PUBLISHED"
    """Named by `targets-active`."""
    SUPERSEDED = "SUPERSEDED"
    ABANDONED = "ABANDONED"

    @property
    def accepts_records(self) -> bool:
        return self in {GenerationState.DRAFT, GenerationState.PUBLISHED}

    @property
    def has_ended(self) -> bool:
        """Whether the generation is removed later."""
        return self in {GenerationState.SUPERSEDED, GenerationState.ABANDONED}


class CaptureState(StrEnum):
    """Whether the statistics of a snapshot are complete and visible; FINALIZED is for ever."""

    PENDING = "PENDING"
    FINALIZED = "FINALIZED"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveGeneration:
    """A publication of the statistics of a snapshot: the snapshot is finalised."""

    table_id: UUID
    snapshot_id: int
    generation: str
    number: int
    """Rises by one with each publication of the snapshot."""
    publication_sha: str
    """Equal for equal results."""
    finalizer_job_id: UUID
    finalized_at: datetime
    manifest: str
    """Blob of the StatsManifest."""

    def is_of(self, generation: str, publication_sha: str) -> bool:
        return (self.generation, self.publication_sha) == (generation, publication_sha)

    def payload(self) -> bytes:
        return canonical_json(
            {
                "generation": self.generation,
                "number": str(self.number),
                "publication_sha": self.publication_sha,
                "finalizer_job_id": str(self.finalizer_job_id),
                "finalized_at": instant_text(self.finalized_at),
            }
        )


def active_generation(
    table_id: UUID, snapshot_id: int, payload: bytes, manifest: str
) -> ActiveGeneration:
    """Read the payload of `targets-active`."""
    content = json.loads(payload)
    return ActiveGeneration(
        table_id=table_id,
        snapshot_id=snapshot_id,
        generation=content["generation"],
        number=int(content["number"]),
        publication_sha=content["publication_sha"],
        finalizer_job_id=UUID(content["finalizer_job_id"]),
        finalized_at=datetime.fromisoformat(content["finalized_at"]),
        manifest=manifest,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """The state of a generation since a moment."""

    state: GenerationState
    since: datetime
    publication_sha: str | None = None
    """Of the publication that runs, or of the last one."""
    publication: ActiveGeneration | None = None
    """The last one."""

    def payload(self) -> bytes:
        last = self.publication
        return canonical_json(
            {
                "state": self.state,
                "since": instant_text(self.since),
                "publication_sha": self.publication_sha,
                "publication": None if last is None else last.payload().decode(),
            }
        )


def lifecycle_of(
    table_id: UUID, snapshot_id: int, payload: bytes, manifest: str | None
) -> Lifecycle:
    """Read the payload of `lifecycle`; its blob is the manifest of the last publication."""
    content = json.loads(payload)
    last = content["publication"]
    return Lifecycle(
        state=GenerationState(content["state"]),
        since=datetime.fromisoformat(content["since"]),
        publication_sha=content["publication_sha"],
        publication=None
        if last is None or manifest is None
        else active_generation(table_id, snapshot_id, last.encode(), manifest),
    )
