"""What a person declares, read and free of faults: the input of apply.

Separate from the stored `Resource`, since a declaration has no uid, generation or status; it is
what `datarecs_specs` makes and `datarecs_application.resources` takes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from datarecs_core.hashing import JsonValue
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One declaration. Two with the same meaning are equal in any notation."""

    kind: Kind
    name: str
    namespace: str = DEFAULT_NAMESPACE
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    spec: Mapping[str, JsonValue]
    """Canonical: aliases resolved, defaults materialised, decimals as exact text, no null."""
    spec_hash: str
    """`sha256:` and 64 hexadecimal characters, over the spec without fields at their default."""
