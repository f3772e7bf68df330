"""Annotations that the platform acts on: on which kinds, and with which values.

Another value, or the annotation on another kind, would look like an order and have no effect.
"""

from collections.abc import Iterator, Mapping

from datarecs_core.errors.faults import Fault
from datarecs_core.errors.spec import SpecCode
from datarecs_core.resources.reconciling import PAUSED, RECONCILE_AT, RECONCILED, SKIP_DRAIN
from datarecs_core.resources.resource import Kind

PLATFORM_PREFIX = "datarecs.io/"
"""Of names that people use only as annotations of `KINDS`."""
HOLD = "datarecs.io/hold"
"""Of a job; with the value `true` nothing of the job is removed."""
FLAGS = frozenset({PAUSED, HOLD, SKIP_DRAIN})
"""Values `true` and `false`; the others have any value."""
KINDS: Mapping[str, frozenset[Kind]] = {
    PAUSED: RECONCILED,
    RECONCILE_AT: RECONCILED,
    HOLD: frozenset({Kind.RECONCILIATION_JOB}),
    SKIP_DRAIN: frozenset({Kind.SINK_TABLE}),
}
"""Every annotation that people may set; others with the prefix are refused."""


def annotation_faults(kind: Kind, annotations: Mapping[str, str]) -> Iterator[Fault]:
    """Annotations of the platform that would have no effect on an object of this kind."""
    for name in sorted(KINDS.keys() & annotations.keys()):
        at = ("metadata", "annotations", name)
        if kind not in KINDS[name]:
            kinds = ", ".join(sorted(KINDS[name]))
            yield Fault(
                code=SpecCode.WITHOUT_EFFECT,
                path=at,
                message=f"{name} has no effect on a {kind}: it is for {kinds}",
                hint="leave it out",
            )
        elif name in FLAGS and annotations[name] not in {"true", "false"}:
            yield Fault(
                code=SpecCode.NOT_IN_ENUM,
                path=at,
                message=f'{name} is "true" or "false"',
                hint='write "true" or leave it out',
            )
