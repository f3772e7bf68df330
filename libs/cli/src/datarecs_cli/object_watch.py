"""Watches the objects of one kind: a list, then each change, across lost connections.

The stream resumes at the last place. After 410 the objects are listed again: one that is no longer
there is reported as deleted with its last known state, and a failed list reports nothing. No
change is reported twice, because the versions of an object count its writes.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum

from datarecs_cli.client import MAX_PAGE, Api, ApiRequest, Json, path_of
from datarecs_cli.follow import FIRST_PAUSE, LONGEST_PAUSE, is_passing, placed_frames
from datarecs_cli.refusals import RefusedError, ServerUnreachableError, UnexpectedAnswerError
from datarecs_core.errors.api import ApiCode

PATIENCE = timedelta(minutes=5)
"""Without any answer; then the command fails."""


class Event(StrEnum):
    SYNC = "SYNC"
    """In a list, new or changed since the last report."""
    CREATED = "CREATED"
    UPDATED = "UPDATED"
    STATUS_UPDATED = "STATUS_UPDATED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Observed:
    """An object, and what happened to it."""

    event: Event
    resource: Json
    is_last_known: bool = False
    """Its deletion was missed: this is the last state that the client received."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection was lost; watching continues automatically."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which objects are watched."""

    path: str
    """Of the kind."""
    params: Mapping[str, str]
    """`namespace` and `label_selector`, where they are limited."""
    name: str | None = None
    """Only the object of this name."""


def watch_objects(api: Api, scope: Scope) -> Iterator[Observed | Lost]:
    """The objects, then their changes, without an end.

    Raises:
        RefusedError: the key may not read them, or the selector is not valid.
        ServerUnreachableError: no answer for five minutes.
    """
    watch = _Watch(api, scope)
    clock, pause = api.clock, FIRST_PAUSE
    last_answer = clock.monotonic()
    while True:
        reason = "the server closed the stream"
        try:
            for item in watch.step():
                last_answer, pause = clock.monotonic(), FIRST_PAUSE
                if item is not None:
                    yield item
        except (ServerUnreachableError, UnexpectedAnswerError, RefusedError) as lost:
            if isinstance(lost, RefusedError) and lost.code is ApiCode.PLACE_EXPIRED:
                watch.list_again()
            elif not is_passing(lost):
                raise
            if clock.monotonic() - last_answer >= PATIENCE.total_seconds():
                raise
            reason = str(lost)
        yield Lost(reason)
        clock.wait(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


class _Watch:
    """What one client has: a place, and the objects it knows by uid."""

    def __init__(self, api: Api, scope: Scope) -> None:
        self._api, self._scope = api, scope
        self._since: str | None = None
        self._known: dict[str, Json] = {}

    def step(self) -> Iterator[Observed | None]:
        """List if there is no place, then the stream until it ends; None for a sign of life."""
        if self._since is None:
            yield from self._listed()
        yield from self._streamed()

    def list_again(self) -> None:
        """Changes after the place are no longer available."""
        self._since = None

    def _listed(self) -> Iterator[Observed | None]:
        objects, since = self._read_list()
        gone = [uid for uid in self._known if uid not in objects]
        for uid in gone:
            yield Observed(Event.DELETED, self._known.pop(uid), is_last_known=True)
        for uid, resource in reversed(objects.items()):
            if _version(resource) != _version(self._known.get(uid)):
                self._known[uid] = resource
                yield Observed(Event.SYNC, resource)
        self._since = since
        yield None

    def _read_list(self) -> tuple[dict[str, Json], str]:
        """Every object by uid, newest first, and the place of the first page."""
        objects, since, more = dict[str, Json](), "", dict[str, str]()
        while True:
            page = self._api.get(
                self._scope.path, **self._scope.params, limit=str(MAX_PAGE), **more
            )
            since = since or str(page["watch_since"])
            items = page.get("items")
            for resource in items if isinstance(items, list) else []:
                if self._concerns(resource):
                    objects[_uid(resource)] = resource
            cursor = page.get("next")
            if not isinstance(cursor, str):
                return objects, since
            more = {"cursor": cursor}

    def _streamed(self) -> Iterator[Observed | None]:
        request = ApiRequest(
            method="GET",
            path=path_of(self._scope.path),
            params={**self._scope.params, "watch": "1", "since": str(self._since)},
        )
        with self._api.lines(request) as lines:
            for name, data, place in placed_frames(lines):
                if name in set(Event):
                    yield self._change(Event(name), _object(data, request))
                else:
                    yield None
                self._since = place or self._since

    def _change(self, event: Event, resource: Json) -> Observed | None:
        """None for another object, and for a write that a list has already shown."""
        uid = _uid(resource)
        known = self._known.get(uid)
        if not self._concerns(resource) or _version(resource) <= _version(known):
            return None
        if event is not Event.DELETED:
            self._known[uid] = resource
        elif self._known.pop(uid, None) is None:
            return None
        return Observed(event, resource)

    def _concerns(self, resource: Json) -> bool:
        return self._scope.name in {None, _metadata(resource).get("name")}


def _metadata(resource: Json) -> Json:
    metadata = resource.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _uid(resource: Json) -> str:
    return str(_metadata(resource).get("uid"))


def _version(resource: Json | None) -> int:
    """How often the object was written; 0 for one that is not known."""
    return 0 if resource is None else int(str(_metadata(resource).get("resourceVersion", "0")))


def _object(data: str, request: ApiRequest) -> Json:
    try:
        resource = json.loads(data, parse_float=Decimal)
    except ValueError:
        resource = None
    if not isinstance(resource, dict):
        raise UnexpectedAnswerError(where=request.where, what="an event without a JSON object")
    return resource
