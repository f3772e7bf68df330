"""Names of topics of records, as sources and sinks declare them.

One rule for both: topics of Kafka and of the platform are read by no declaration. Several tenants
may share a cluster and a login there, so the control topics and dead letters of sinks are among
them.
"""

from datarecs_core.errors.spec import SpecCode
from datarecs_specs.reading import Reading
from datarecs_specs.shapes import Checked, Pattern, Text

_FIX = "write the name of a topic of records as the cluster has it"
_NAMES = Pattern(
    regex=r"[A-Za-z0-9._-]{1,249}",
    words="1 to 249 letters, digits, dots, underscores and hyphens",
    fix=_FIX,
)
_INTERNAL = ("__", "datarecs.")


def _topic_fault(text: str, _reading: Reading) -> str | None:
    if text in {".", ".."}:
        return "no topic has this name"
    if text.startswith(_INTERNAL):
        return "topics that begin with __ or datarecs. are those of Kafka and datarecs"
    return None


TOPIC_NAME = Checked(
    text=Text(most=249, pattern=_NAMES),
    code=SpecCode.BAD_NAME,
    fault_of=_topic_fault,
    examples=("orders", "payments.v1"),
    fix=_FIX,
)
