"""How a run may be called: its id, the beginning of it, or its place among its job's runs."""

import re
from uuid import UUID

from datarecs_cli.client import Api
from datarecs_cli.invocation import UsageFault

LEAST_PREFIX = 8
_PREFIX = re.compile(r"[0-9a-f-]{8,36}")
_PLACES = {"@latest": 1, "@previous": 2}


def run_named(api: Api, name: str) -> str:
    """The id of the run that is meant.

    Args:
        api: where runs are looked up.
        name: an id, at least 8 characters of its beginning, `@latest:JOB` or `@previous:JOB`; a
            leading `run/`, as `-o name` prints it, is dropped.

    Raises:
        UsageFault: no such run, or more than one.
    """
    wanted = name.removeprefix("run/")
    place, separator, job = wanted.partition(":")
    if separator and place in _PLACES:
        return _by_place(api, job, _PLACES[place])
    try:
        return str(UUID(wanted))
    except ValueError:
        return _by_prefix(api, wanted.lower())


def _by_place(api: Api, job: str, place: int) -> str:
    runs = list(api.pages("runs", limit=place, params={"job": job}))
    if len(runs) < place:
        raise UsageFault(f"the job {job!r} has {len(runs)} runs; see: datarecs get runs")
    return str(runs[place - 1]["run_id"])


def _by_prefix(api: Api, prefix: str) -> str:
    if not _PREFIX.fullmatch(prefix):
        raise UsageFault(
            f"a run is named by its id, {LEAST_PREFIX} or more characters of it, @latest:JOB or"
            " @previous:JOB"
        )
    items = api.get("runs", id_prefix=prefix).get("items")
    runs = items if isinstance(items, list) else []
    if len(runs) != 1:
        many = "no run's id begins" if not runs else "the ids of several runs begin"
        raise UsageFault(f"{many} with {prefix}; see: datarecs get runs")
    return str(runs[0]["run_id"])
