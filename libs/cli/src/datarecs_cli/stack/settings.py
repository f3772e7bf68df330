"""What `up` and `admin` themselves read of the settings; the services have classes of their own.

Loaded like any service's, so an unknown name is refused with the nearest known one, secrets may
stand in files, and `datarecs.toml` counts. The result is handed on as an environment.
"""

import json
from collections.abc import Mapping

from datarecs_runtime.sections import Database, Jars, Java, Kafka, Secrets, Up
from datarecs_runtime.settings import ServiceSettings, load


class StackSettings(ServiceSettings):
    database: Database | None = None
    """An administrator's login of a running server; None starts one."""
    kafka: Kafka = Kafka()
    """Running brokers and their administrator, or an unpacked Kafka to start."""
    java: Java = Java()
    """The Java to use."""
    jars: Jars = Jars()
    """Where jars are fetched."""
    secrets: Secrets = Secrets()
    """Which service sends which secret of a tenant."""
    up: Up = Up()
    """How `datarecs up` starts."""


def effective_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with every setting of the stack in its plain form, wherever it came from.

    Raises:
        SettingsError: every unknown name and every wrong value, at once.
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
        "DATARECS_JAVA__HOME": str(settings.java.home or ""),
        "DATARECS_JAVA__OPTIONS": settings.java.options,
        "DATARECS_JARS__MIRROR": settings.jars.mirror or "",
        "DATARECS_SECRETS__USES": json.dumps(settings.secrets.uses)
        if settings.secrets.uses
        else "",
        "DATARECS_UP__READY_TIMEOUT_S": str(settings.up.ready_timeout_s or ""),
    }
    return dict(environment) | {name: value for name, value in values.items() if value}
