"""What the decoding of one document collects: its faults, and the place of each path in the text.

Shapes write into it while they read, so that a rule with paths only can be shown with line and
column afterwards, also through aliases of fields and shorthand.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from datarecs_core.access.references import ReferenceRules
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.egress.urls import UrlRules
from datarecs_core.errors.faults import Fault, Gap, Path
from datarecs_core.hashing import JsonValue
from datarecs_specs.nodes import ListNode, MapNode, Mark, Node, Scalar

JsonSchema = Mapping[str, JsonValue]

_LENIENT_WEBHOOKS = UrlRules(policy=Policy(purpose=Purpose.WEBHOOK, profile=Profile.LOCAL))
_LENIENT_CONNECTIONS = UrlRules(policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL))


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The context of a validation and what it allows.

    The default is an editor without a server: a value that only some operators forbid passes there
    and is refused at apply.
    """

    webhooks: UrlRules = _LENIENT_WEBHOOKS
    connections: UrlRules = _LENIENT_CONNECTIONS
    references: ReferenceRules | None = None
    """None: any well-formed secret reference passes here and is judged where it is used."""
    is_stored: bool = False
    """A spec read back from the database: rules that are younger than it are applied at its use."""
    on_server: bool = False
    """Whether a server will run the declaration. Elsewhere a need of servers only is a
    note with the same message, since `datarecs compare` reads any path without a connection."""
    event_types: Collection[str] = ()
    """Types that a filter can choose; none: any well-formed glob passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """The place of a path: its key (none in a list), its value, and the first key inside it."""

    key: Mark | None
    value: Mark | None
    first: Mark | None


@dataclass(slots=True, kw_only=True)
class Reading:
    surroundings: Surroundings = field(default_factory=Surroundings)
    faults: list[Fault] = field(default_factory=list)
    spots: dict[Path, Spot] = field(default_factory=dict)
    again: dict[Path, Mark] = field(default_factory=dict)
    """The place of a key that repeats a field by its alias."""

    def place(self, at: Path, node: Node, *, key: Mark | None = None) -> None:
        """Store the place of the path; the first place wins."""
        self.spots.setdefault(at, Spot(key=key, value=node.mark, first=first_mark(node)))

    def server_fault(self, fault: Fault) -> None:
        """Record a fault for declarations that a server runs; elsewhere it is a note."""
        elsewhere = not self.surroundings.on_server
        self.faults.append(replace(fault, warning=elsewhere, note=elsewhere))

    def fault(self, fault: Fault) -> Gap:
        """Record the fault; returns a Gap for the unreadable value."""
        self.faults.append(fault)
        return Gap()


def first_mark(node: Node) -> Mark | None:
    """The first key of a mapping, else the node itself."""
    match node:
        case MapNode(entries=(first, *_)):
            return first.key_mark
        case Scalar() | ListNode() | MapNode():
            return node.mark


class Shape(Protocol):
    """One form of value: how it is read, written back and described. Stateless and shared."""

    def read(self, node: Node, at: Path, reading: Reading) -> object:
        """The value, or a Gap after its fault was recorded in `reading`."""

    def write(self, value: object, *, minimal: bool) -> JsonValue:
        """The canonical form of a value; `minimal` leaves out fields at their default."""

    def schema(self) -> JsonSchema:
        """JSON Schema 2020-12 of everything that `read` accepts."""
