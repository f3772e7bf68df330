"""The one table of pointers in DynamoDB: its form, its calls, and their errors.

Separate from `pointers`, which decides what is written; here a call succeeds, loses against another
writer, or the table is not available.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from datarecs_application.errors import StoreUnavailableError

ACCOUNT, KEY, EXPIRES = "account", "key", "expires_at"
BY_EXPIRY = "by-expiry"
MAX_TRANSACTION = 100
"""Items of one transaction, a limit of DynamoDB."""
Item = Mapping[str, Mapping[str, Any]]
"""Attributes by name, each with its type: `{"S": text}`, `{"N": digits}`, `{"B": bytes}`."""
Call = Mapping[str, Any]
"""Parameters of one call or of one item of a transaction."""

_LOST = frozenset({"ConditionalCheckFailed", "TransactionConflict"})
_LOST_CALLS = frozenset(
    {
        "ConditionalCheckFailedException",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)


class LostRaceError(Exception):
    """Another writer changed the same items; nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerTable:
    """One table. Safe from several threads."""

    client: Any
    """Of boto3, which publishes no types."""
    name: str

    def create(self) -> None:
        """Create the table with its index, and wait until both can be used."""
        text = [(ACCOUNT, "S"), (KEY, "S"), (EXPIRES, "S")]
        with self._reported():
            self.client.create_table(
                TableName=self.name,
                AttributeDefinitions=[
                    {"AttributeName": name, "AttributeType": kind} for name, kind in text
                ],
                KeySchema=_schema(KEY),
                GlobalSecondaryIndexes=[
                    {
                        "IndexName": BY_EXPIRY,
                        "KeySchema": _schema(EXPIRES),
                        "Projection": {"ProjectionType": "KEYS_ONLY"},
                    }
                ],
                BillingMode="PAY_PER_REQUEST",
            )
            self.client.get_waiter("table_exists").wait(TableName=self.name)

    def read(self, keys: Sequence[Item]) -> list[Item]:
        """The present ones of at most `MAX_TRANSACTION` items, all of one moment.

        Raises:
            LostRaceError: an item was being written.
        """
        with self._reported():
            answer = self.client.transact_get_items(
                TransactItems=[{"Get": {"TableName": self.name, "Key": key}} for key in keys]
            )
        return [one["Item"] for one in answer["Responses"] if "Item" in one]

    def write(self, operations: Sequence[tuple[str, Call]]) -> None:
        """Carry out all or none of at most `MAX_TRANSACTION` operations.

        Args:
            operations: Put, Update, Delete or ConditionCheck, each with its parameters.

        Raises:
            LostRaceError: a condition does not hold, or an item was being written.
        """
        items = [{kind: {"TableName": self.name, **call}} for kind, call in operations]
        with self._reported():
            self.client.transact_write_items(
                TransactItems=items, ClientRequestToken=secrets.token_hex(16)
            )

    def delete(self, key: Item, **conditions: object) -> bool:
        """Delete one item; False if its condition does not hold."""
        try:
            with self._reported():
                self.client.delete_item(TableName=self.name, Key=key, **conditions)
        except LostRaceError:
            return False
        return True

    def query(self, **call: object) -> tuple[list[Item], bool]:
        """A page of items, and whether more follow."""
        with self._reported():
            answer = self.client.query(TableName=self.name, **call)
        return answer["Items"], "LastEvaluatedKey" in answer

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except ClientError as cause:
            if _is_lost(cause):
                raise LostRaceError from cause
            raise self._unavailable(cause) from cause
        except BotoCoreError as cause:
            raise self._unavailable(cause) from cause

    def _unavailable(self, cause: Exception) -> StoreUnavailableError:
        return StoreUnavailableError(cause=f"table {self.name} of DynamoDB: {cause}")


def open_table(name: str, *, region: str, endpoint: str | None = None) -> PointerTable:
    """The table of this name, with the credentials that the AWS libraries find.

    Args:
        name: of the table.
        region: for example `eu-central-1`.
        endpoint: only for servers that are not of AWS.
    """
    from boto3.session import Session  # noqa: PLC0415  importing it opens a socket
    from botocore.config import Config  # noqa: PLC0415  as above

    config = Config(
        connect_timeout=5,
        read_timeout=10,
        max_pool_connections=50,
        retries={"mode": "standard", "total_max_attempts": 5},  # with the token of the first call
    )
    session = Session(region_name=region)
    client = session.client("dynamodb", endpoint_url=endpoint, config=config)
    return PointerTable(client=client, name=name)


def _schema(range_key: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": ACCOUNT, "KeyType": "HASH"},
        {"AttributeName": range_key, "KeyType": "RANGE"},
    ]


def _is_lost(cause: ClientError) -> bool:
    """Whether the call lost against other writers; other reasons are the table's."""
    code = cause.response["Error"]["Code"]
    if code != "TransactionCanceledException":
        return code in _LOST_CALLS
    reasons = {one.get("Code", "None") for one in cause.response.get("CancellationReasons", ())}
    return bool(reasons & _LOST) and reasons <= {*_LOST, "None"}
