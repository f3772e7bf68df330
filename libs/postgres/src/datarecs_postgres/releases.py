"""The release of this process, and how releases are ordered; used by readiness and migrations.

Every session of a service carries the release in its application name, so the open sessions of a
database are the register of the processes that use it.
"""

import re
from importlib.metadata import version

_NUMBERED = re.compile(r"\d+\.\d+(\.\d+)?\S*")


def this_release() -> str:
    """The version of the installed distribution."""
    return version("datarecs")


def release_number(text: str) -> tuple[int, ...]:
    """The first three numbers of a version, for comparisons."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def application_name(program: str) -> str:
    """The name of a session: the program and its release."""
    return f"{program} {this_release()}"


def release_of(application: str) -> str | None:
    """The release in the name of a session; None in a name that `application_name` did not make."""
    last = application.rpartition(" ")[2]
    return last if _NUMBERED.fullmatch(last) else None
