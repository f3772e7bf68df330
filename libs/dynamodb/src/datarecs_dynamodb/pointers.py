"""The pointers of one account in DynamoDB.

A batch is decided by the rule of core over rows of one moment, then written by one transaction with
the same rule as conditions. If another writer was faster, the batch is decided again.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from uuid import UUID

from datarecs_application.errors import StoreBusyError
from datarecs_application.ports.outside import Clock
from datarecs_core.catalog.pointers import (
    Applied,
    Bump,
    Check,
    CheckPresent,
    Delete,
    Op,
    Outcome,
    Pointer,
    PointerPage,
    Rejected,
    Upsert,
    apply_batch,
    check_batch,
    check_pointer_key,
    check_pointer_prefix,
    position_of,
    token_after,
)
from datarecs_core.errors.catalogue import BatchTooLargeError
from datarecs_core.values import TenantId, instant_text
from datarecs_dynamodb.table import (
    ACCOUNT,
    BY_EXPIRY,
    EXPIRES,
    KEY,
    MAX_TRANSACTION,
    Call,
    Item,
    LostRaceError,
    PointerTable,
)

TRIES = 16
_LONGEST_WAIT_MS = 100
_PAGE = 1_000
_NAMES = {
    "#account": ACCOUNT,
    "#key": KEY,
    "#expires": EXPIRES,
    "#version": "version",
    "#resource": "resource_id",
}
_EXPIRED = "#expires <= :now"
_LIVE = "(attribute_not_exists(#expires) OR #expires > :now)"
_ABSENT = f"attribute_not_exists(#key) OR {_EXPIRED}"
_PRESENT = f"attribute_exists(#key) AND {_LIVE}"
_AT_VERSION = f"#version = :expected AND {_LIVE}"
_OF_RESOURCE = " AND #resource = :resource"


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamoPointers:
    """Port Pointers; every call is a transaction of its own. Safe from several threads."""

    table: PointerTable
    tenant: TenantId
    clock: Clock
    """Decides what has expired: DynamoDB has no clock for conditions."""
    jitter: Callable[[], float]
    """From 0 to 1."""

    def get(self, key: str) -> Pointer | None:
        return self.get_many([key]).get(key)

    def get_many(self, keys: Collection[str]) -> Mapping[str, Pointer]:
        for key in keys:
            check_pointer_key(key, self.tenant)
        _check_size(len(keys))
        for _ in self._tries():
            try:
                return self._live(keys, self.clock.now())
            except LostRaceError:
                continue
        raise _busy(keys)

    def batch(self, ops: Sequence[Op]) -> Outcome:
        check_batch(ops, self.tenant)
        _check_size(len(ops))
        if not ops:
            return Applied()
        for _ in self._tries():
            try:
                return self._decide(ops)
            except LostRaceError:
                continue
        raise _busy([op.key for op in ops])

    def list(self, prefix: str, *, limit: int, token: str | None = None) -> PointerPage:
        check_pointer_prefix(prefix, self.tenant)
        live = self._live_below(prefix, position_of(prefix, token), page=limit + 2)
        page = tuple(_pointer_of(item) for item in islice(live, limit + 1))
        if len(page) <= limit:
            return PointerPage(pointers=page)
        return PointerPage(pointers=page[:limit], token=token_after(prefix, page[limit - 1].key))

    def count(self, prefix: str, *, cap: int) -> int:
        check_pointer_prefix(prefix, self.tenant)
        return sum(1 for _ in islice(self._live_below(prefix, prefix, page=_PAGE), cap))

    def delete_prefix(self, prefix: str, *, limit: int) -> int:
        check_pointer_prefix(prefix, self.tenant)
        chosen = list(islice(self._below(prefix, prefix, page=limit + 1), limit))
        for item in chosen:
            self.table.delete(_key_of(item))
        return len(chosen)

    def delete_expired(self, *, limit: int) -> int:
        values = {":account": {"S": str(self.tenant)}, ":now": _time(self.clock.now())}
        chosen, _ = self.table.query(
            IndexName=BY_EXPIRY,
            KeyConditionExpression=f"#account = :account AND {_EXPIRED}",
            ExpressionAttributeNames=_used_names(f"#account {_EXPIRED}"),
            ExpressionAttributeValues=values,
            Limit=limit,
        )
        condition = _condition(_EXPIRED, {":now": values[":now"]})
        return sum(self.table.delete(_key_of(item), **condition) for item in chosen)

    def _decide(self, ops: Sequence[Op]) -> Outcome:
        now = self.clock.now()
        rows = self._live([op.key for op in ops], now)
        outcome, _ = apply_batch(rows, ops)
        if isinstance(outcome, Rejected):
            return outcome
        self.table.write([self._operation(op, rows.get(op.key), now) for op in ops])
        return outcome

    def _operation(self, op: Op, current: Pointer | None, now: datetime) -> tuple[str, Call]:
        """The operation under the condition by which the rule has allowed it."""
        place = {"Key": self._place(op.key)}
        match op:
            case Upsert():
                condition = _condition_of(op.expected, op.resource_id, now)
                return "Put", {"Item": self._item(op.next, op.expected + 1), **condition}
            case Bump():
                return self._raise(op.key, current, now)
            case Delete():
                return "Delete", {**place, **_condition_of(op.expected, op.resource_id, now)}
            case Check():
                return "ConditionCheck", {**place, **_condition_of(op.expected, None, now)}
            case CheckPresent():
                values = {":now": _time(now)}
                return "ConditionCheck", {**place, **_of_resource(_PRESENT, values, op.resource_id)}

    def _raise(self, key: str, current: Pointer | None, now: datetime) -> tuple[str, Call]:
        """The next version, with the content unchanged."""
        if current is None:
            return "Put", {"Item": self._item(Pointer(key=key), 1), **_condition_of(0, None, now)}
        condition = _condition_of(current.version, None, now)
        following = {":following": {"N": str(current.version + 1)}}
        return "Update", {
            "Key": self._place(key),
            "UpdateExpression": "SET #version = :following",
            **condition,
            "ExpressionAttributeValues": condition["ExpressionAttributeValues"] | following,
        }

    def _live(self, keys: Collection[str], now: datetime) -> dict[str, Pointer]:
        if not keys:
            return {}
        items = self.table.read([self._place(key) for key in dict.fromkeys(keys)])
        pointers = [_pointer_of(item) for item in items]
        return {one.key: one for one in pointers if one.is_live(now)}

    def _live_below(self, prefix: str, after: str, *, page: int) -> Iterator[Item]:
        now = instant_text(self.clock.now())
        for item in self._below(prefix, after, page=page):
            if EXPIRES not in item or item[EXPIRES]["S"] > now:
                yield item

    def _below(self, prefix: str, after: str, *, page: int) -> Iterator[Item]:
        """Items after a key in byte order; a page begins at a key, whether it exists or not."""
        condition = "#account = :account AND #key BETWEEN :after AND :end"
        end, has_more = f"{prefix.removesuffix('/')}0", True
        while has_more:
            items, has_more = self.table.query(
                KeyConditionExpression=condition,
                ExpressionAttributeNames=_used_names(condition),
                ExpressionAttributeValues={
                    ":account": {"S": str(self.tenant)},
                    ":after": {"S": after},
                    ":end": {"S": end},
                },
                ConsistentRead=True,
                Limit=min(page, _PAGE),
            )
            yield from (one for one in items if one[KEY]["S"] not in {after, end})
            after = items[-1][KEY]["S"] if items else end

    def _tries(self) -> Iterator[int]:
        for number in range(TRIES):
            yield number
            self.clock.wait(timedelta(milliseconds=_LONGEST_WAIT_MS * self.jitter()))

    def _place(self, key: str) -> Item:
        return {ACCOUNT: {"S": str(self.tenant)}, KEY: {"S": key}}

    def _item(self, pointer: Pointer, version: int) -> Item:
        optional = {
            "blob_key": pointer.blob_key and {"S": pointer.blob_key},
            "payload": None if pointer.payload is None else {"B": pointer.payload},
            "resource_id": pointer.resource_id and {"S": str(pointer.resource_id)},
            EXPIRES: pointer.expires_at and _time(pointer.expires_at),
        }
        present = {name: value for name, value in optional.items() if value}
        return {**self._place(pointer.key), "version": {"N": str(version)}, **present}


def _check_size(count: int) -> None:
    if count > MAX_TRANSACTION:
        raise BatchTooLargeError(count=count, limit=MAX_TRANSACTION)


def _busy(keys: Collection[str]) -> StoreBusyError:
    return StoreBusyError(cause=f"other writers changed {next(iter(keys))} in {TRIES} tries")


def _condition_of(expected: int, owner: UUID | None, now: datetime) -> Call:
    values = {":now": _time(now)}
    if expected == 0:
        return _condition(_ABSENT, values)
    return _of_resource(_AT_VERSION, {**values, ":expected": {"N": str(expected)}}, owner)


def _of_resource(expression: str, values: Item, owner: UUID | None) -> Call:
    if owner is None:
        return _condition(expression, values)
    return _condition(f"{expression}{_OF_RESOURCE}", {**values, ":resource": {"S": str(owner)}})


def _condition(expression: str, values: Item) -> dict[str, object]:
    return {
        "ConditionExpression": expression,
        "ExpressionAttributeNames": _used_names(expression),
        "ExpressionAttributeValues": values,
    }


def _used_names(expression: str) -> dict[str, str]:
    """DynamoDB refuses names that an expression does not use."""
    return {alias: name for alias, name in _NAMES.items() if alias in expression}


def _key_of(item: Item) -> Item:
    return {name: item[name] for name in (ACCOUNT, KEY)}


def _time(moment: datetime) -> Mapping[str, str]:
    return {"S": instant_text(moment)}


def _pointer_of(item: Item) -> Pointer:
    resource, expires = item.get("resource_id"), item.get(EXPIRES)
    payload, blob = item.get("payload"), item.get("blob_key")
    return Pointer(
        key=item[KEY]["S"],
        blob_key=None if blob is None else blob["S"],
        payload=None if payload is None else payload["B"],
        resource_id=None if resource is None else UUID(resource["S"]),
        expires_at=None if expires is None else datetime.fromisoformat(expires["S"]),
        version=int(item["version"]["N"]),
    )
