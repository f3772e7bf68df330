"""The settings that `up` and `admin` read; the services have other classes.

They are loaded like those of a service: an unknown name is refused with the nearest known one,
secrets may be in files, and `datarecs.toml` is read. The result is passed on as an environment.
"""

import json
from collections.abc import Mapping

from datarecs_runtime.blob_section import Blob
from datarecs_runtime.sections import Database, Jars, Java, Kafka, Secrets, Up
from datarecs_runtime.settings import ServiceSettings, load


class StackSettings(ServiceSettings):
    database: Database | None = None
    """The administrator's login of a running server; None starts a server."""
    kafka: Kafka = Kafka()
    """Running brokers and their administrator, or an unpacked Kafka to start."""
    blob: Blob | None = None
    """The store of the artefacts of runs; None: the folder of the data directory."""
    java: Java = Java()
    """The Java to use."""
    jars: Jars = Jars()
    """The repository of jars."""
    secrets: Secrets = Secrets()
    """The purposes of the secrets of tenants."""
    up: Up = Up()
    """Settings of the start by `datarecs up`."""


def effective_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with every setting of the stack as a variable, from all sources.

    Raises:
        SettingsError: with every unknown name and every wrong value.
    """
    settings = load(StackSettings)
    values = {
        "DATARECS_DATABASE__URL": (
            settings.database.url.get_secret_value() if settings.database else ""
        ),
        "DATARECS_KAFKA__BOOTSTRAP": ",".join(settings.kafka.bootstrap),
        "DATARECS_KAFKA__USERNAME": settings.kafka.username,
        "DATARECS_KAFKA__PASSWORD": settings.kafka.password.get_secret_value(),
        "DATARECS_KAFKA__HOME": str(settings.kafka.home or ""),
        "DATARECS_BLOB__URL": settings.blob.url if settings.blob else "",
        "DATARECS_JAVA__HOME": str(settings.java.home or ""),
        "DATARECS_JAVA__OPTIONS": settings.java.options,
        "DATARECS_JARS__MIRROR": settings.jars.mirror or "",
        "DATARECS_SECRETS__USES": json.dumps(settings.secrets.uses)
        if settings.secrets.uses
        else "",
        "DATARECS_UP__READY_TIMEOUT_S": str(settings.up.ready_timeout_s or ""),
    }
    return dict(environment) | {name: value for name, value in values.items() if value}
