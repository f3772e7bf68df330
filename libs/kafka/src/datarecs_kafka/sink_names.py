"""Names of one sink on its cluster; one prefix, so that one access rule covers them."""

from dataclasses import dataclass
from uuid import UUID

COORDINATOR = "coordinator"


@dataclass(frozen=True, slots=True)
class SinkNames:
    """Of the SinkTable with this uid."""

    uid: UUID

    @property
    def group(self) -> str:
        return f"datarecs.sink.{self.uid}"

    @property
    def control(self) -> str:
        """The control topic."""
        return self.group

    @property
    def dead_letters(self) -> str:
        """A topic."""
        return f"{self.group}.dlq"

    def transactional_id(self, role: str) -> str:
        """`coordinator`, or the name of a task."""
        return f"{self.group}.{role if role == COORDINATOR else f'w-{role}'}"
