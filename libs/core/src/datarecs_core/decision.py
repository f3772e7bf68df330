"""What a pure rule returns: the new state and the events that tell it. Nothing has happened yet."""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

S = TypeVar("S")


class Event(Protocol):
    """A frozen dataclass of some `core/<concept>/events.py`, told in the past tense.

    Its wire type, topic, key and subject stand in `datarecs_events.catalogue`, by class.
    """


@dataclass(frozen=True, slots=True)
class Decision(Generic[S]):
    """The state after a fact, and the events to append in the same commit, in order."""

    state: S
    events: tuple[Event, ...] = ()
