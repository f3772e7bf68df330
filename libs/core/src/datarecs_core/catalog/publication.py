"""What a published generation of statistics contains, so that a later capture can skip it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """The outputs of a capture, and the columns that they are about."""

    outputs: tuple[str, ...]
    """Sorted names."""
    columns_sha256: str
    """Of the names of the columns in order; empty if no output is about columns."""

    def covers(self, wanted: "Captured") -> bool:
        """Whether another capture of the same snapshot would record nothing new."""
        return set(wanted.outputs) <= set(self.outputs) and wanted.columns_sha256 in {
            "",
            self.columns_sha256,
        }
