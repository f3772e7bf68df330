"""A setting that is accepted has an effect: some code besides its declaration reads it."""

import ast
import inspect
from pathlib import Path

import pytest

from datarecs_runtime import api_sections, sections

ROOT = Path(__file__).resolve().parents[2]
DECLARED = [
    (name, field)
    for module in (sections, api_sections)
    for name, section in inspect.getmembers(module, inspect.isclass)
    if issubclass(section, sections.Section) and section.__module__ == module.__name__
    if section is not sections.Section
    for field in section.model_fields
]


@pytest.fixture(scope="module")
def read_attributes() -> set[str]:
    """Names of every attribute that the source reads, outside declarations of sections."""
    paths = [
        path for member in ("libs", "services") for path in ROOT.glob(f"{member}/*/src/**/*.py")
    ]
    trees = [
        ast.parse(path.read_text("utf-8"))
        for path in paths
        if path.stem not in {"sections", "api_sections"}
    ]
    return {
        node.attr
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


@pytest.mark.parametrize(("section", "field"), DECLARED)
def test_every_setting_is_read(section: str, field: str, read_attributes: set[str]) -> None:
    assert field in read_attributes, f"nothing reads {field} of section {section}"
