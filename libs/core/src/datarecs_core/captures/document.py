"""A capture as it is written down: the request, with the name of its connection.

The same fields for REST, the command line and a declaration; faults have the paths of this
document. Spec queue-capture 14, 15.
"""

from dataclasses import dataclass, field
from uuid import UUID

from datarecs_core.captures.request import (
    DEFAULT_COLUMNS,
    CaptureMode,
    CapturePolicy,
    CaptureRequest,
    CaptureScope,
    ColumnChoice,
    ExecutionPolicy,
    Output,
    SnapshotSelection,
)
from datarecs_core.captures.rules import request_faults
from datarecs_core.errors.faults import Fault, is_gap
from datarecs_core.values import ResourceUid

_NOWHERE = ResourceUid(UUID(int=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedColumns:
    """Which columns the outputs about columns have."""

    choice: ColumnChoice = ColumnChoice.FIRST_N
    first: int = DEFAULT_COLUMNS
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureDocument:
    connection: str
    """Its name."""
    mode: CaptureMode
    full_rescan: bool = False
    scope: CaptureScope = field(default_factory=CaptureScope)
    outputs: tuple[Output, ...] = ()
    columns: CapturedColumns = field(default_factory=CapturedColumns)
    snapshots: SnapshotSelection | None = None
    execution: ExecutionPolicy = field(default_factory=ExecutionPolicy)

    def request(self, connection_uid: ResourceUid) -> CaptureRequest:
        """The request, when the connection of the name is known."""
        return self._with_mode(self.mode, connection_uid)

    def faults(self) -> list[Fault]:
        """Broken rules; of a draft without a mode, those that are broken in every mode."""
        modes = list(CaptureMode) if is_gap(self.mode) else [self.mode]
        by_mode = [request_faults(self._with_mode(mode, _NOWHERE)) for mode in modes]
        return [fault for fault in by_mode[0] if all(fault in others for others in by_mode)]

    def _with_mode(self, mode: CaptureMode, connection_uid: ResourceUid) -> CaptureRequest:
        return CaptureRequest(
            connection_uid=connection_uid,
            mode=mode,
            is_full_rescan=self.full_rescan,
            scope=self.scope,
            policy=CapturePolicy(
                outputs=self.outputs,
                column_choice=self.columns.choice,
                first_columns=self.columns.first,
                columns=self.columns.names,
            ),
            selection=self.snapshots,
            execution=self.execution,
        )


def document_of(request: CaptureRequest, connection: str) -> CaptureDocument:
    """The document that makes this request of the connection with this name."""
    policy = request.policy
    return CaptureDocument(
        connection=connection,
        mode=request.mode,
        full_rescan=request.is_full_rescan,
        scope=request.scope,
        outputs=policy.outputs,
        columns=CapturedColumns(
            choice=policy.column_choice, first=policy.first_columns, names=policy.columns
        ),
        snapshots=request.selection,
        execution=request.execution,
    )
