"""The rights on the tables of the catalogue and of captures: a part of the data of `rls`."""

from datarecs_postgres.capture_rows import MUTABLE as CAPTURE_WORK_CHANGES
from datarecs_postgres.policies import Policy, TableAccess, granted, granted_fully
from datarecs_postgres.roles import API, CAPTURE, READ, RESOURCES, WORKER_RUN

_PIN_KEYS = "key ~ '^/accounts/[^/]+/tables/[^/]+/(pins/[^/]+|root/current)$'::text"
"""What a run writes in the catalogue: its pin, and the next version of the root that it pins."""

CATALOGUE_TABLES: tuple[TableAccess, ...] = (
    TableAccess(
        table="pointer",
        grants=(
            *granted("SELECT", API, READ),
            *granted_fully(CAPTURE),
            *granted("SELECT", WORKER_RUN),
            *granted("INSERT", WORKER_RUN),
            *granted("UPDATE", WORKER_RUN),
        ),
        extra_policies=(
            Policy(
                name="pins_added",
                role=WORKER_RUN,
                command="INSERT",
                check=_PIN_KEYS,
                restrictive=True,
            ),
            Policy(
                name="pins_moved",
                role=WORKER_RUN,
                command="UPDATE",
                using=_PIN_KEYS,
                check=_PIN_KEYS,
                restrictive=True,
            ),
        ),
    ),
    TableAccess(
        table="capture_sequence",
        grants=(
            *granted("SELECT", API, CAPTURE, READ),
            *granted("INSERT", API, CAPTURE),
            *granted("UPDATE", API, CAPTURE, columns=("last_sequence",)),
        ),
    ),
    TableAccess(
        table="capture_work",
        grants=(
            *granted("SELECT", API, CAPTURE, RESOURCES, READ),
            *granted("INSERT", API, CAPTURE, RESOURCES),
            *granted("UPDATE", API, CAPTURE, columns=CAPTURE_WORK_CHANGES),
            *granted("DELETE", CAPTURE),
        ),
    ),
    TableAccess(
        table="capture_claim",
        grants=(
            *granted("SELECT", API, CAPTURE, READ),
            *granted("DELETE", API, CAPTURE),
        ),
    ),
    TableAccess(
        table="capture_cancel",
        grants=(
            *granted("SELECT", API, CAPTURE, READ),
            *granted("INSERT", API, CAPTURE),
            *granted("DELETE", CAPTURE),
        ),
    ),
    TableAccess(table="capture_turn"),
)
