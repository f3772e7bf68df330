"""Names of a run: its id, the start of its id, or its position among the runs of its job."""

import re
from uuid import UUID

from datarecs_cli.client import Api
from datarecs_cli.invocation import UsageFault
from datarecs_reports.figures import counted

LEAST_PREFIX = 8
_PREFIX = re.compile(r"[0-9a-f-]{8,36}")
_PLACES = {"@latest": 1, "@previous": 2}


def run_named(api: Api, name: str) -> str:
    """The id of the named run.

    Args:
        api: the API to find runs.
        name: an id, its first 8 or more characters, `@latest:JOB` or `@previous:JOB`; a leading
            `run/`, as in the output of `-o name`, is removed.

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
        runs_text = counted(len(runs), "run")
        raise UsageFault(f"job {job!r} has only {runs_text}; list runs with: datarecs get runs")
    return str(runs[place - 1]["run_id"])


def _by_prefix(api: Api, prefix: str) -> str:
    if not _PREFIX.fullmatch(prefix):
        raise UsageFault(
            f"name a run by its id, its first {LEAST_PREFIX} or more characters, @latest:JOB or"
            " @previous:JOB"
        )
    items = api.get("runs", id_prefix=prefix).get("items")
    runs = items if isinstance(items, list) else []
    if len(runs) != 1:
        many = "no run's id starts" if not runs else "the ids of several runs start"
        raise UsageFault(f"{many} with {prefix}; list runs with: datarecs get runs")
    return str(runs[0]["run_id"])
