"""`Prefer: wait=N` (RFC 7240): how long a response waits for the end of a run.

Separate from the routes because the header has a grammar: several lines and preferences, quoted
values, parameters; of a repeated preference the first counts, and unreadable parts are ignored.
"""

import re
from datetime import timedelta
from typing import Annotated

from fastapi import Depends, Header, Request

MAX_WAIT_S = 30
_WAIT = re.compile(r'wait\s*=\s*(?P<quote>"?)(?P<seconds>[0-9]{1,19})(?P=quote)', re.IGNORECASE)


def wait_of(lines: list[str]) -> timedelta | None:
    """The wait to apply, at most 30 seconds; None when there is none, or none that can be read."""
    for preference in ",".join(lines).split(","):
        text = preference.partition(";")[0].strip()
        if re.match(r"wait\s*(=|$)", text, re.IGNORECASE):
            wait = _WAIT.fullmatch(text)
            return timedelta(seconds=min(int(wait["seconds"]), MAX_WAIT_S)) if wait else None
    return None


async def preferred_wait(
    request: Request,
    _: Annotated[
        str | None,
        Header(
            alias="Prefer",
            description=f"`wait=N` delays the response for N seconds, at most {MAX_WAIT_S}; "
            "Preference-Applied has the wait that was used (RFC 7240).",
            json_schema_extra={"examples": ["wait=10"]},
        ),
    ] = None,
) -> timedelta | None:
    """The wait of every Prefer line; the parameter is here to be published."""
    return wait_of(request.headers.getlist("prefer"))


PreferredWait = Annotated[timedelta | None, Depends(preferred_wait)]
