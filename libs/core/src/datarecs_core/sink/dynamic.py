"""Tables that records name: by a field of the value, or by their topic.

A name comes from whoever writes to the topic. So it can only be made of plain words, it stays in
the declared namespace, and there is a limit to the number of tables.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from datarecs_core.errors.sink import BadRecordError
from datarecs_core.sink.definition import DynamicTables, SinkTarget
from datarecs_core.sink.routing import text_at

MOST_CHARACTERS = 255
"""Of the namespace and the name, with the dots between."""
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_MOST_REMEMBERED = 10_000
"""Names without a table; then the memory begins anew."""


def named_table(rule: DynamicTables, text: str) -> SinkTarget:
    """The table of a name. Raises BadRecordError; its message does not repeat the text."""
    path = rule.path or ""
    if len(text) > MOST_CHARACTERS:
        reason = f"the name of a table has at most {MOST_CHARACTERS} characters"
        raise BadRecordError(path=path, reason=reason)
    words = tuple((text.lower() if rule.lower_case else text).split("."))
    if not all(_WORD.fullmatch(word) for word in words):
        reason = "a table is named by letters, digits, _ and -, with a dot after each namespace"
        raise BadRecordError(path=path, reason=reason)
    namespace, name = words[:-1] or rule.namespace, words[-1]
    if not namespace:
        reason = "the name of a table needs its namespace and a dot before it"
        raise BadRecordError(path=path, reason=reason)
    if rule.namespace and namespace != rule.namespace:
        reason = f"the table is outside of the namespace {'.'.join(rule.namespace)}"
        raise BadRecordError(path=path, reason=reason)
    target = SinkTarget(catalog=rule.catalog, namespace=namespace, name=name)
    if len(str(target)) > MOST_CHARACTERS:
        reason = f"the namespace and the name have more than {MOST_CHARACTERS} characters"
        raise BadRecordError(path=path, reason=reason)
    return target


def topic_tables(rule: DynamicTables, topics: Iterable[str]) -> Iterator[SinkTarget]:
    """The tables of topics that name them; nothing where a field of the records does."""
    if rule.path is not None:
        return
    for topic in topics:
        with suppress(BadRecordError):
            yield named_table(rule, topic)


@dataclass(slots=True)
class NamedTables:
    """The tables that the records of one task have named, by their numbers."""

    rule: DynamicTables
    targets: dict[int, SinkTarget] = field(default_factory=dict)
    _numbers: dict[SinkTarget, int] = field(default_factory=dict)
    _by_text: dict[str, int] = field(default_factory=dict)
    _missing: dict[int, str] = field(default_factory=dict)
    """Reason by number, until `recheck`."""
    _next: int = 0

    def number(self, topic: str, value: Mapping[str, object]) -> int:
        """Of the table of a record. Raises BadRecordError."""
        rule = self.rule
        text = topic if rule.path is None else text_at(value, tuple(rule.path.split(".")))
        if text is None:
            raise BadRecordError(path=rule.path or "", reason="no text names a table")
        number = self._by_text.get(text)
        if number is None:
            number = self._number_of(named_table(rule, text))
            if len(self._by_text) < _MOST_REMEMBERED:
                self._by_text[text] = number
        self.require(number)
        return number

    def require(self, number: int) -> None:
        """Raises BadRecordError for a table that is known to be missing."""
        if number in self._missing:
            raise self.missing(number, self._missing[number])

    def missing(self, number: int, reason: str) -> BadRecordError:
        """Note that the table does not exist; it takes no place among `max_tables`."""
        self._missing[number] = reason
        return BadRecordError(path=self.rule.path or "", reason=reason, at=0)

    def recheck(self) -> None:
        """Tables that were missing may be there now."""
        for number in self._missing:
            del self._numbers[self.targets.pop(number)]
        if self._missing:
            self._by_text.clear()
        self._missing.clear()

    def _number_of(self, target: SinkTarget) -> int:
        number = self._numbers.get(target)
        if number is not None:
            return number
        most = self.rule.max_tables
        if len(self._numbers) - len(self._missing) >= most:
            reason = f"the records name more than {most} tables"
            raise BadRecordError(path=self.rule.path or "", reason=reason)
        if len(self._missing) >= _MOST_REMEMBERED:
            self.recheck()
        number, self._next = self._next, self._next + 1
        self._numbers[target], self.targets[number] = number, target
        return number
