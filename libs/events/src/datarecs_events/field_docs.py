"""Reads the docstrings of the fields of an event's class, for the published schemas.

Attribute docstrings do not exist at run time, so the source is read. Only the schema writer and a
test do this, never a service.
"""

import ast
import inspect
from itertools import pairwise


def class_doc(event_class: type[object]) -> str:
    """The class's docstring as one paragraph."""
    return " ".join((event_class.__doc__ or "").split())


def field_docs(event_class: type[object]) -> dict[str, str]:
    """Field name to its docstring, including inherited fields; fields without one are left out."""
    docs: dict[str, str] = {}
    for one in reversed(event_class.__mro__[:-1]):
        docs |= _of_class(one)
    return docs


def _of_class(event_class: type[object]) -> dict[str, str]:
    module = inspect.getmodule(event_class)
    if module is None:
        return {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ClassDef) and node.name == event_class.__name__:
            return _under_fields(node)
    return {}


def _under_fields(node: ast.ClassDef) -> dict[str, str]:
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(node.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
