"""Schemas of a registry, by the ids that producers write before their values.

A schema never changes under its id, so each is read once per process. One that cannot be used is
requested again later, because a registry may be behind the one that the producer wrote to. The
registry is a server that a tenant names: its address is checked at each request, as that of a
catalog.
"""

import json
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from urllib.parse import quote

from datarecs_connectors.avro.decoding import AvroValueError, reader_of, schema_id
from datarecs_connectors.avro.schemas import (
    AvroSchemaError,
    RecordNode,
    UnionNode,
    parsed_schema,
)
from datarecs_connectors.errors import ConnectionFailedError
from datarecs_connectors.http_json import JsonServer
from datarecs_core.resources.connection import RegistryConfig

MOST_BYTES = 1024 * 1024
"""Of one answer."""
FAULT_STANDS = timedelta(seconds=30)
"""Until a schema that could not be used is requested again."""
_MOST_SCHEMAS = 1_000
_MOST_REFERENCES = 100
_NOT_FOUND, _OK = 404, 200
_ABSENT = {40401, 40402, 40403}
"""Codes for subject, version and schema not found; a 404 without one is no registry's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSchema:
    """A schema of records, with the function that reads them."""

    record: RecordNode
    read: Callable[[bytes], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """Why values of a schema cannot be read."""

    reason: str
    until: datetime


@dataclass(slots=True, kw_only=True)
class SchemaRegistry:
    """The registry of one connection. Safe for threads."""

    server: JsonServer
    config: RegistryConfig
    now: Callable[[], datetime]
    password: str = field(default="", repr=False)
    _known: OrderedDict[int, RecordSchema | _Fault] = field(default_factory=OrderedDict)
    """By id."""
    _lock: Lock = field(default_factory=Lock)

    def decoded(self, value: bytes) -> tuple[Mapping[str, object], RecordNode]:
        """The members of a record, and its schema.

        Raises:
            AvroValueError: the bytes are no such record; the text has none of them.
            ConnectionFailedError: the registry does not answer.
            PermissionDeniedError: it refuses the login.
        """
        schema = self.schema(schema_id(value))
        members = schema.read(value)
        if not isinstance(members, dict):
            raise AvroValueError("the value is null inside")
        return members, schema.record

    def schema(self, number: int) -> RecordSchema:
        """Raises what `decoded` raises."""
        with self._lock:
            known = self._known.get(number)
            if known is None or (isinstance(known, _Fault) and self.now() >= known.until):
                known = self._known[number] = self._requested(number)
                if len(self._known) > _MOST_SCHEMAS:
                    self._known.popitem(last=False)
        if isinstance(known, _Fault):
            raise AvroValueError(known.reason)
        return known

    def check(self) -> str:
        """Check that it answers; returns a text for people. Raises as `decoded`."""
        answer = self._answer("schemas/types")
        if not isinstance(answer, list) or "AVRO" not in answer:
            raise self._failed("it is no schema registry that knows Avro")
        return f"{self.config.url} is a schema registry"

    def _requested(self, number: int) -> RecordSchema | _Fault:
        try:
            answer = self._document(f"schemas/ids/{number}")
            referenced = self._referenced(answer)
            node = parsed_schema(self._text(answer), referenced)
        except AvroSchemaError as cause:
            return self._fault(f"the schema {number} of the registry cannot be used: {cause}")
        record = node.only if isinstance(node, UnionNode) else node
        if not isinstance(record, RecordNode):
            return self._fault(f"the schema {number} of the registry is not that of a record")
        return RecordSchema(record=record, read=reader_of(node))

    def _fault(self, reason: str) -> _Fault:
        return _Fault(reason=reason, until=self.now() + FAULT_STANDS)

    def _referenced(self, answer: Mapping[str, object]) -> list[str]:
        """The texts of the schemas that it uses, each after those that it uses itself."""
        texts: dict[tuple[str, int], str] = {}
        self._follow(answer, texts, 0)
        return list(texts.values())

    def _follow(
        self, answer: Mapping[str, object], texts: dict[tuple[str, int], str], depth: int
    ) -> None:
        for place in self._references(answer):
            if place in texts:
                continue
            if len(texts) + depth >= _MOST_REFERENCES:
                raise AvroSchemaError(f"it refers to more than {_MOST_REFERENCES} schemas")
            subject, version = place
            used = self._document(f"subjects/{quote(subject, safe='')}/versions/{version}")
            self._follow(used, texts, depth + 1)
            texts[place] = self._text(used)

    def _text(self, answer: Mapping[str, object]) -> str:
        if answer.get("schemaType", "AVRO") != "AVRO":
            raise AvroSchemaError("it is not one of Avro")
        text = answer.get("schema")
        if not isinstance(text, str):
            raise self._failed("its answer has no schema")
        return text

    def _references(self, answer: Mapping[str, object]) -> Sequence[tuple[str, int]]:
        """Subject and version of each."""
        listed = answer.get("references") or []
        places = []
        for each in listed if isinstance(listed, list) else [None]:
            subject, version = (
                (each.get("subject"), each.get("version"))
                if isinstance(each, dict)
                else (None, None)
            )
            if not isinstance(subject, str) or type(version) is not int:
                raise self._failed("the references in its answer cannot be read")
            places.append((subject, version))
        return places

    def _document(self, path: str) -> Mapping[str, object]:
        answer = self._answer(path)
        if answer is None:
            raise AvroSchemaError("the registry does not have it")
        if not isinstance(answer, dict):
            raise self._failed("its answer is no JSON object")
        return answer

    def _answer(self, path: str) -> object:
        """The JSON of an answer; None for what the registry does not have."""
        url = f"{self.config.url.rstrip('/')}/{path}"
        status, content = self.server.fetch(url, authorization=self._login())
        try:
            document: object = json.loads(content)
        except (ValueError, RecursionError):
            document = None
        code = document.get("error_code") if isinstance(document, dict) else None
        if status == _NOT_FOUND and code in _ABSENT:
            return None
        if status != _OK or document is None:
            raise self._failed(f"it answers {path} with status {status} and no document")
        return document

    def _login(self) -> str | None:
        if self.config.username is None:
            return None
        login = f"{self.config.username}:{self.password}".encode()
        return f"Basic {b64encode(login).decode()}"

    def _failed(self, why: str) -> ConnectionFailedError:
        return ConnectionFailedError(self.server.source, f"{self.config.url}: {why}")
