"""Events of a run as `events` and `watch --events` print them: a line, or the CloudEvent itself."""

from datarecs_cli.client import Json
from datarecs_cli.output import cell, exact_json

_USUAL = ("APPLIED", "HISTORY")


def print_cloud_event(entry: Json) -> None:
    """One line of JSON, with all digits of numbers."""
    print(exact_json(entry), flush=True)


def event_line(entry: Json) -> str:
    """Number, time and type for people, and the disposition if it is unusual."""
    number = str(int(str(entry["runsequence"]))).rjust(4)
    disposition = cell(entry.get("disposition"))
    unusual = "" if disposition in _USUAL else f"  {disposition}"
    return f"{number}  {cell(entry.get('time'))}  {cell(entry.get('type'))}{unusual}"
