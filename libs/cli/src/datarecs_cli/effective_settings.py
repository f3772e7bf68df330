"""The settings that are set with their places, and a commented file of all settings.

Names, meanings and order are from `datarecs_runtime.settings`; this module reads the environment
and the two files.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from textwrap import wrap

from datarecs_core.errors.process import SettingsError
from datarecs_runtime.settings import PREFIX, PROJECT_FILE, USER_FILE, Setting

HIDDEN = "(set, not shown)"
_WIDTH = 94


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    name: str
    value: str
    source: str
    """`environment`, or the file that sets it."""


def effective(
    settings: Sequence[Setting], environment: Mapping[str, str], *, folder: Path
) -> list[Effective]:
    """Every setting that the environment or a file sets, in the order of the settings.

    Raises:
        SettingsError: a settings file cannot be read.
    """
    files = [folder / PROJECT_FILE, USER_FILE.expanduser()]
    tables = [(path, _table(path)) for path in files if path.is_file()]
    entries = []
    for setting in settings:
        source, value = _first(setting, environment, tables)
        if source is not None:
            shown = HIDDEN if setting.secret else str(value)
            entries.append(Effective(name=setting.name, value=shown, source=source))
    return entries


def _first(
    setting: Setting,
    environment: Mapping[str, str],
    tables: Sequence[tuple[Path, Mapping[str, object]]],
) -> tuple[str | None, object]:
    if environment.get(setting.name):
        return "environment", environment[setting.name]
    if setting.secret and environment.get(f"{setting.name}_FILE"):
        return f"file named by {setting.name}_FILE", ""
    for path, table in tables:
        value = _in(table, _steps(setting.name))
        if value is not None:
            return str(path), value
    return None, None


def _steps(name: str) -> list[str]:
    return name.removeprefix(PREFIX).lower().split("__")


def _in(table: Mapping[str, object], steps: Sequence[str]) -> object:
    value: object = table
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _table(path: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as cause:
        raise SettingsError((f"{path} cannot be read: {type(cause).__name__}",)) from cause


def commented(settings: Sequence[Setting]) -> Iterator[str]:
    """A `datarecs.toml` in which every line is a comment: meaning, environment name, default."""
    yield "# Every setting of datarecs with its default. Remove a # to set one."
    sections = list(dict.fromkeys(["", *map(_section, settings)]))
    ordered = sorted(settings, key=lambda setting: sections.index(_section(setting)))
    for section, members in groupby(ordered, key=_section):
        yield ""
        yield f"# [{section}]" if section else "# for every service"
        for setting in members:
            text = f"{setting.meaning} Environment: {setting.name}."
            yield from wrap(text, width=_WIDTH, initial_indent="#   ", subsequent_indent="#   ")
            yield f"# {_steps(setting.name)[-1]} = {_toml(setting)}"


def _section(setting: Setting) -> str:
    return ".".join(_steps(setting.name)[:-1])


def _toml(setting: Setting) -> str:
    if setting.secret:
        return '""  # a secret: better in a file, named by the setting with _FILE'
    if setting.default in ("True", "False"):
        return setting.default.lower()
    if setting.default.replace(".", "", 1).isdigit():
        return setting.default
    return f'"{setting.default}"'
