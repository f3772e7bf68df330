"""Which objects of a kind a list or a watch has, and one page of them.

Separate from the routes, which are the same for every kind, and from `watching`, which streams.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from fastapi import Query, Request

from datarecs_core.access.principal import Principal
from datarecs_core.errors.api import ApiCode
from datarecs_core.resources.change_feed import WatchFilter
from datarecs_core.resources.selector import MAX_TEXT, Selector, SelectorError, parse_selector
from datarecs_core.values import ResourceUid
from datarecs_core_api.dependencies import Ports
from datarecs_core_api.inputs import NAME_PATTERN
from datarecs_core_api.outputs import ResourcePage
from datarecs_core_api.pagination import Position
from datarecs_core_api.problems import Fault, invalid
from datarecs_core_api.views import resource_view
from datarecs_specs.kinds import KindEntry

EVERYWHERE = "*"
PLACE = r"^[A-Za-z0-9_-]{22}$"
Namespaces = Annotated[
    str, Query(pattern=rf"^\*$|{NAME_PATTERN}", description="A project of the tenant; * for all.")
]
LabelSelector = Annotated[
    str,
    Query(
        max_length=MAX_TEXT,
        description="Only objects with these labels, such as `team=finance,env in (test, prod)`.",
    ),
]
Since = Annotated[
    str,
    Query(
        pattern=PLACE,
        description="With `watch=1`: `watch_since` of a list or an id of a frame; Last-Event-ID "
        "wins. Without it, changes from now on.",
    ),
]
_OF_LISTS, _OF_WATCHES = ("limit", "cursor"), ("since",)


@dataclass(frozen=True)
class Objects:
    """Objects of one kind that a request is about."""

    entry: KindEntry
    namespace: str
    """EVERYWHERE for all."""
    labels: str
    """The selector as it was sent."""

    @property
    def within(self) -> str | None:
        return None if self.namespace == EVERYWHERE else self.namespace

    @cached_property
    def selector(self) -> Selector:
        """Raises ProblemError (422) for a text that is no selector."""
        try:
            return parse_selector(self.labels)
        except SelectorError as error:
            fault = Fault(
                code=ApiCode.INVALID_INPUT.docs_id,
                pointer="/query/label_selector",
                message=error.reason,
                hint=error.fix,
            )
            raise invalid("the label selector is not valid", fault) from error

    @property
    def watched(self) -> WatchFilter:
        return WatchFilter(kind=self.entry.kind, namespace=self.within, selector=self.selector)


def check_purpose(request: Request, *, watch: bool) -> None:
    """Raises ProblemError (422) for parameters of a list in a watch, and the reverse."""
    wrong = _OF_LISTS if watch else _OF_WATCHES
    fix = "remove it: a watch has no pages" if watch else "add watch=1"
    faults = [
        Fault(
            code=ApiCode.INVALID_INPUT.docs_id,
            pointer=f"/query/{name}",
            message="this parameter has no effect here",
            hint=fix,
        )
        for name in wrong
        if name in request.query_params
    ]
    if faults:
        raise invalid("a parameter has no effect", *faults)


def read_page(
    use: Ports, caller: Principal, objects: Objects, *, limit: int, cursor: str | None
) -> ResourcePage:
    """One page, newest first.

    The place is read before the objects, so that a watch from there misses no later change; it may
    repeat one that the page already shows.
    """
    selector, now = objects.selector, use.clock.now()
    scope = {"list": objects.entry.path, "namespace": objects.namespace}
    if objects.labels:
        scope["labels"] = objects.labels
    before = None
    if cursor is not None:
        at = use.cursors.read(cursor, tenant=caller.tenant_id, where=scope, now=now)
        before = (at.created_at, ResourceUid(at.id))
    place = None
    if cursor is None:
        head = use.resource_changes.head()
        place = use.watch_places.write(caller.tenant_id, head, at=now)
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        resources = tx.resources.page(
            objects.entry.kind,
            namespace=objects.within,
            selector=selector,
            limit=limit + 1,
            before=before,
        )
    following = None
    if len(resources) > limit:
        last = resources[limit - 1]
        position = Position(created_at=last.created_at, id=last.uid)
        following = use.cursors.write(position, tenant=caller.tenant_id, where=scope, now=now)
    items = [resource_view(one) for one in resources[:limit]]
    return ResourcePage(items=items, next=following, watch_since=place)
