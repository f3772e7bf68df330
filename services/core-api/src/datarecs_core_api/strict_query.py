"""Query parameters of a route: an unknown one and a repeated one are refused by name.

One mechanism for every route, so that a misspelt filter never returns the whole list. A route
checks its permission first, so that a caller without a key gets 401.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import get_args, get_origin

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_dependant
from fastapi.routing import APIRoute

from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.faults import did_you_mean, pointer
from datarecs_core_api.problems import Fault, invalid

LONGEST_NAME = 64
"""Characters of an unknown name that the response repeats."""


def refuse_other_parameters(route: APIRoute, *, position: int) -> None:
    """Add the check to the route, as its dependency at this position."""
    known = dict(_query_parameters(route.dependant))

    async def check_query(request: Request) -> None:
        check_names(known, (name for name, _ in request.query_params.multi_items()))

    route.dependant.dependencies.insert(position, get_dependant(path=route.path, call=check_query))


def check_names(known: Mapping[str, bool], names: Iterable[str]) -> None:
    """Compare the names of a query with those of a route.

    Args:
        known: each parameter of the route, and whether it may be repeated.
        names: of the request, one entry per occurrence.

    Raises:
        ProblemError: 422 with one fault per unknown or wrongly repeated name.
    """
    counts = Counter(names)
    faults = [_unknown(name, known) for name in counts if name not in known]
    faults += [
        _fault(name, "this parameter may occur once", hint=f"send one {name}")
        for name, count in counts.items()
        if count > 1 and known.get(name) is False
    ]
    if faults:
        raise invalid("a parameter is not allowed", *faults)


def _query_parameters(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    """Name and whether it may be repeated, also of the route's dependencies."""
    for parameter in dependant.query_params:
        annotation = parameter.field_info.annotation
        kinds = (annotation, *get_args(annotation))
        yield parameter.alias, any(get_origin(one) is list for one in kinds)
    for dependency in dependant.dependencies:
        yield from _query_parameters(dependency)


def _unknown(name: str, known: Mapping[str, bool]) -> Fault:
    takes = f"this route accepts {', '.join(sorted(known)) or 'no parameters'}"
    hint = did_you_mean(name[:LONGEST_NAME], known) or takes
    return _fault(name, "unknown parameter", hint=hint)


def _fault(name: str, message: str, *, hint: str) -> Fault:
    return Fault(
        code=ApiCode.INVALID_INPUT.docs_id,
        pointer=pointer(("query", name[:LONGEST_NAME])),
        message=message,
        hint=hint,
    )
