"""The frames of a live view as data: a server-sent event or a message of a socket.

Separate from `live` and `tenant_live`, which decide what is sent: both forms have the same content.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from datarecs_core_api.exact_json import exact_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One frame; encoded once for all clients."""

    event: str
    data: str
    """JSON; numbers keep their digits."""
    place: int | str | None = None
    """Where a client continues: in a run a number, in a tenant's feed one of `Places`."""

    def as_sse(self) -> bytes:
        head = f"event: {self.event}\n"
        place = "" if self.place is None else f"id: {self.place}\n"
        return f"{head}{place}data: {self.data}\n\n".encode()

    def as_message(self, run_id: UUID) -> str:
        """One socket may follow several runs, so each message names its own."""
        members = {"event": self.event, "run_id": str(run_id), "id": self.place}
        head = json.dumps({name: value for name, value in members.items() if value is not None})
        return f'{head[:-1]}, "data": {self.data}}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A place without an event: a browser stores it and continues from there."""

    place: str

    def as_sse(self) -> bytes:
        return f"id: {self.place}\n\n".encode()


FrameBatch = Sequence[Frame | Mark]
"""The frames of one write; empty when a ping is due because there were none."""


def a_frame(event: str, data: object, *, place: int | str | None = None) -> Frame:
    return Frame(event=event, data=exact_json(data), place=place)
