"""Describe how a stage is compared, as text for `plan`: no secret, no value of a row."""

from datarecs_kernel.layout import Layout


def explained(layout: Layout, way: str = "one task reads the files") -> str:
    """One line per decision."""
    stage = layout.stage
    lines = [
        f"{stage.name}: strategy {stage.strategy.chosen}, {way}",
        *(f"read {scan.source}: {scan.kind}, {len(scan.columns)} columns" for scan in stage.scans),
    ]
    lines += [f"not {each}: {reason}" for each, reason in stage.strategy.rejected]
    if stage.written_where is not None:
        lines.append(f"only rows where {stage.written_where}")
    if stage.scope is not None:
        lines.append(f"only groups that differ in {stage.scope.from_stage}")
    lines += [f"group by {field.label} as {field.form.sql_type}" for field in layout.keys]
    if layout.hashed is not None:
        hashed = layout.hashed.fields
        lines += [f"fingerprint of {field.label} as {field.form.sql_type}" for field in hashed]
    lines += [
        f"compare {each.plan.name} ({each.plan.function}) as {each.result.sql_type}"
        for each in layout.compared
    ]
    lines += [
        f"{field.label} of {scan.source} is prepared in Python"
        for field in layout.of_rows.fields
        for scan, python in zip(stage.scans, field.python, strict=True)
        if python
    ]
    return "\n".join(lines)
