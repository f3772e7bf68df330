"""What each record does to the rows of its key, as a sink declares it."""

from collections.abc import Mapping
from dataclasses import dataclass

from datarecs_core.errors.sink import BadRecordError
from datarecs_core.sink.definition import CdcRule, RowChange, SinkMode, SinkTable, Tombstones

_BY_LETTER = {
    "I": RowChange.INSERT,
    "C": RowChange.INSERT,
    "R": RowChange.INSERT,
    "U": RowChange.UPDATE,
    "D": RowChange.DELETE,
}
# Not `upper()`: it makes an I of the dotless letter i of Turkish.
_BY_ANY_LETTER = _BY_LETTER | {letter.lower(): one for letter, one in _BY_LETTER.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordChanges:
    """The rule of one sink; without arguments that of the mode append."""

    default: RowChange = RowChange.INSERT
    cdc: CdcRule | None = None
    deletes_by_tombstone: bool = False

    @classmethod
    def of(cls, sink: SinkTable) -> "RecordChanges":
        if sink.mode is SinkMode.APPEND:
            return cls()
        return cls(
            default=RowChange.UPDATE,
            cdc=sink.cdc if sink.mode is SinkMode.CDC else None,
            deletes_by_tombstone=sink.tombstones is not Tombstones.IGNORE,
        )

    def change(self, value: Mapping[str, object]) -> RowChange:
        """Raises BadRecordError for a record that does not say what it is."""
        if self.cdc is None:
            return self.default
        node: object = value
        for name in self.cdc.path.split("."):
            node = node.get(name) if isinstance(node, Mapping) else None
        if not isinstance(node, str):
            raise BadRecordError(path=self.cdc.path, reason="no text says which change it is")
        by_text = self.cdc.map
        change = by_text.get(node) if by_text else _BY_ANY_LETTER.get(node[:1])
        if change is None:
            raise BadRecordError(path=self.cdc.path, reason="its text is no known change")
        return change
