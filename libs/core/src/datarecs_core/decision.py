"""What a pure rule returns: the new state and its events. Nothing has happened yet."""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

S = TypeVar("S")


class Event(Protocol):
    """A frozen dataclass of some `core/<concept>/events.py`, named in the past tense.

    `datarecs_events.catalogue` has its wire type, topic, key and subject, by class.
    """


@dataclass(frozen=True, slots=True)
class Decision(Generic[S]):
    """The state after a fact, and the events to append in the same commit, in order."""

    state: S
    events: tuple[Event, ...] = ()
