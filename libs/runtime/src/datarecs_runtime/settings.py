"""The settings of a process: the base class, the sources of values, the refusals.

Precedence and refusals are the same for all services: flag, environment, file of a secret,
`datarecs.toml`, the user's file, default. A service defines
`class Settings(ServiceSettings): database: Database` and calls `load(Settings)` once.
"""

import os
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, SecretStr, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from datarecs_core.egress.addresses import Profile
from datarecs_core.errors.faults import nearest
from datarecs_core.errors.process import SettingsError
from datarecs_runtime import api_sections, blob_section, capture_sections, sections, sink_sections
from datarecs_runtime.sections import Log, Otel, Side

PREFIX = "DATARECS_"
SECRETS_DIR = f"{PREFIX}SECRETS_DIR"
DEFAULT_SECRETS_DIR = "/run/secrets/datarecs"
PROJECT_FILE = Path("datarecs.toml")
USER_FILE = Path("~/.config/datarecs/config.toml")
EXEMPT_PREFIXES = (f"{PREFIX}CONN_", f"{PREFIX}TEST_")
"""Prefixes of names that are not settings: tenants' `env:` references, and options of tests."""
EXEMPT_NAMES = frozenset({f"{PREFIX}API_KEY", SECRETS_DIR})

SECTIONS: Mapping[str, type[sections.Section]] = {
    "database": sections.Database,
    "kafka": sections.Kafka,
    "blob": blob_section.Blob,
    "secrets": sections.Secrets,
    "egress": sections.Egress,
    "files": sections.Files,
    "log": sections.Log,
    "side": sections.Side,
    "otel": sections.Otel,
    "api": api_sections.Api,
    "limits": api_sections.Limits,
    "worker": capture_sections.AnyWorker,
    "executor": capture_sections.Executor,
    "sink": sink_sections.Sink,
    "queue": sections.Queue,
    "spark": sections.Spark,
    "eventing": sections.Eventing,
    "launcher": sections.Launcher,
    "outbox": sections.Outbox,
    "links": sections.Links,
    "live": sections.Live,
    "mail": sections.Mail,
    "mail_reports": api_sections.MailReports,
    "webhook": sections.Webhook,
    "java": sections.Java,
    "jars": sections.Jars,
    "up": sections.Up,
}
"""All sections of the platform, by the name of their field in services."""


class ServiceSettings(BaseSettings):
    """Settings of every service; a service adds the sections it needs as fields."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
        validate_default=True,
    )

    profile: Profile = Profile.SERVER
    """`server`: every rule of the security page; `local`: one machine, bound to loopback. The
    strict profile is the default, because the other must be an explicit choice."""
    base_url: str | None = None
    """Base of all links in mails, reports and events; never taken from a request."""
    log: Log = Log()
    """Settings of the log."""
    side: Side = Side()
    """Address of health and metrics."""
    otel: Otel = Otel()
    """Target of traces."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003  see Environment
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  not a source here
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  see Environment
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Highest precedence first."""
        return (
            init_settings,
            Environment(settings_cls),
            InitSettingsSource(settings_cls, _from_toml(PROJECT_FILE, settings_cls)),
            InitSettingsSource(settings_cls, _from_toml(USER_FILE, settings_cls)),
        )


S = TypeVar("S", bound=ServiceSettings)


def load(settings_class: type[S], **flags: Any) -> S:  # noqa: ANN401  values of any field
    """The settings of this process.

    Args:
        settings_class: the class of the service.
        flags: values of the command line; they override all other sources.

    Raises:
        SettingsError: with every unknown name and every missing or wrong value.
    """
    faults = _unknown_names(settings_class)
    try:
        settings = settings_class(**flags)
    except ValidationError as cause:
        faults += _fault_lines(settings_class.model_fields, cause)
    except (OSError, tomllib.TOMLDecodeError) as cause:
        faults.append(f"a settings file cannot be read: {cause}")
    else:
        if not faults:
            return settings
    raise SettingsError(tuple(faults))


def composed_settings(names: Collection[str]) -> type[ServiceSettings]:
    """A settings class with these sections, each with its defaults, for programs that check it."""
    fields: dict[str, Any] = {
        name: (section, FieldInfo(default=... if _needs_values(section) else section()))
        for name, section in SECTIONS.items()
        if name in names
    }
    return create_model("ComposedSettings", __base__=ServiceSettings, **fields)


def _needs_values(section: type[BaseModel]) -> bool:
    return _faults_without_values(section) is not None


class Setting(NamedTuple):
    """One row of `docs/settings.md` and of `config show --defaults`."""

    name: str
    default: str
    secret: bool
    meaning: str


def describe(settings_class: type[ServiceSettings] | None = None) -> list[Setting]:
    """Every setting of a service, or of the whole platform, in the order of the sections."""
    fields = _whole_platform() if settings_class is None else settings_class.model_fields
    return [
        Setting(
            name=name,
            default=_shown_default(field),
            secret=_is_secret(field),
            meaning=" ".join((field.description or "").split()),
        )
        for name, field in _leaves(fields, PREFIX)
    ]


def known_names(settings_class: type[ServiceSettings] | None = None) -> frozenset[str]:
    """Every environment name of a setting; for secrets also with `_FILE`."""
    settings = [*describe(), *(describe(settings_class) if settings_class else ())]
    files = {f"{setting.name}_FILE" for setting in settings if setting.secret}
    return frozenset({setting.name for setting in settings} | files)


class Environment(PydanticBaseSettingsSource):
    """Reads `<NAME>`, else for secrets a file: `<NAME>_FILE`, or a file in the secrets folder.

    The library's source would read `DATABASE__URL_FILE` as a field `url_file`.
    """

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002  part of the interface
        """Not used, because `__call__` returns all fields."""
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, field in _leaves(self.settings_cls.model_fields, PREFIX):
            value = os.environ.get(name) or (_from_file(name) if _is_secret(field) else None)
            if value:
                _put(values, name.removeprefix(PREFIX).lower().split("__"), value)
        return values


def settings_files() -> tuple[Path, ...]:
    """Files and folders with settings or secrets of this process, whether they exist or not."""
    named = [
        Path(value)
        for name, value in os.environ.items()
        if name.startswith(PREFIX) and name.endswith("_FILE") and value
    ]
    folder = Path(os.environ.get(SECRETS_DIR) or DEFAULT_SECRETS_DIR)
    return (*named, folder, PROJECT_FILE.absolute(), _expanded(USER_FILE))


def _expanded(path: Path) -> Path:
    """With the user's home; unchanged for a user without one, such as any id in a container."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def secret_file(name: str) -> Path | None:
    """The file with the value of a secret setting; None if it is not in a file."""
    named = os.environ.get(f"{name}_FILE")
    if named:
        return Path(named)
    folder = Path(os.environ.get(SECRETS_DIR) or DEFAULT_SECRETS_DIR)
    path = folder / name.removeprefix(PREFIX).lower()
    return path if path.is_file() else None


def _from_file(name: str) -> str | None:
    path = secret_file(name)
    return None if path is None else path.read_text().strip()


def _put(values: dict[str, Any], path: list[str], value: str) -> None:
    for step in path[:-1]:
        values = values.setdefault(step, {})
    values[path[-1]] = value


def _from_toml(path: Path, settings_cls: type[BaseSettings]) -> dict[str, Any]:
    """The tables of a file for the sections of this service; others are of other programs."""
    place = _expanded(path)
    if not place.is_file():
        return {}
    tables = tomllib.loads(place.read_text())
    return {name: value for name, value in tables.items() if name in settings_cls.model_fields}


def _unknown_names(settings_class: type[ServiceSettings]) -> list[str]:
    known = known_names(settings_class)
    unknown = [
        name
        for name in sorted(os.environ)
        if name.startswith(PREFIX)
        and name not in known | EXEMPT_NAMES
        and not name.startswith(EXEMPT_PREFIXES)
    ]
    return [f"{name} is not a setting{_guess(name, known)}" for name in unknown]


def _guess(name: str, known: frozenset[str]) -> str:
    close = nearest(name, known)
    return f"; did you mean {close}?" if close else ""


def _fault_lines(fields: Mapping[str, FieldInfo], cause: ValidationError) -> Iterator[str]:
    """One line per fault; of a section without any value those of its settings."""
    for error in cause.errors(include_input=False, include_url=False):
        at = error["loc"]
        field = fields.get(str(at[0])) if len(at) == 1 and error["type"] == "missing" else None
        section = _section_of(field) if field else None
        inner = _faults_without_values(section) if section else None
        if inner is None:
            yield _fault_line(at, error["msg"])
        else:
            for one in inner.errors(include_input=False, include_url=False):
                yield _fault_line((*at, *one["loc"]), one["msg"])


def _faults_without_values(section: type[BaseModel]) -> ValidationError | None:
    try:
        section()
    except ValidationError as cause:
        return cause
    return None


def _fault_line(at: tuple[int | str, ...], message: str) -> str:
    name = PREFIX + "__".join(str(step) for step in at).upper()
    return f"{name}: {message.removeprefix('Value error, ')}"


def _leaves(fields: Mapping[str, FieldInfo], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    """(environment name, field) of every setting with a single value."""
    for name, field in fields.items():
        full = prefix + (field.alias or name).upper()
        section = _section_of(field)
        if section is None:
            yield full, field
        else:
            yield from _leaves(section.model_fields, f"{full}__")


def _section_of(field: FieldInfo) -> type[BaseModel] | None:
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, sections.Section):
            return kind
    return None


def _is_secret(field: FieldInfo) -> bool:
    return field.annotation is SecretStr or SecretStr in get_args(field.annotation)


def _shown_default(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True, validated_data={})
    if _is_secret(field) or field.is_required() or default in (None, "", (), {}, frozenset()):
        return ""
    return str(default)


def _whole_platform() -> dict[str, FieldInfo]:
    common = {
        name: field for name, field in ServiceSettings.model_fields.items() if name not in SECTIONS
    }
    return common | {name: FieldInfo(annotation=section) for name, section in SECTIONS.items()}
