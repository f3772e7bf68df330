"""Settings of core-api: its address, its database login, the place of artefacts."""

from typing import Self

from pydantic import model_validator

from datarecs_runtime.api_sections import Api, Limits, MailReports
from datarecs_runtime.blob_section import Blob
from datarecs_runtime.capture_sections import WorkerAccess
from datarecs_runtime.sections import (
    Database,
    Egress,
    Launcher,
    Links,
    Live,
    MailPreview,
    Secrets,
)
from datarecs_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    database: Database
    """Login `datarecs_api`."""
    blob: Blob
    """Where the artefacts of runs are read."""
    api: Api = Api()
    """Where it listens, and what it grants a single client."""
    limits: Limits = Limits()
    """Rate limits and quotas of principals and tenants."""
    secrets: Secrets = Secrets()
    """The key under which it seals what it stores and never reads again."""
    egress: Egress = Egress()
    """Which addresses a declaration may name."""
    launcher: Launcher = Launcher()
    """The backend of the runs that it triggers."""
    live: Live = Live()
    """Whether live views are woken by notifications."""
    links: Links = Links()
    """The key under which links in mails are signed; the same as the email-notifier's."""
    mail_reports: MailReports = MailReports()
    """The secret of reports of bounces and complaints."""
    mail: MailPreview = MailPreview()
    """Sender and allowed domains of mails, for previews of rules; the same as the
    email-notifier's."""
    worker: WorkerAccess = WorkerAccess()
    """The control API of remote workers."""

    @model_validator(mode="after")
    def _control_api_has_a_login(self) -> Self:
        if self.worker.api.enabled is not (self.database.capture.url is not None):
            raise ValueError(
                "set both or none of DATARECS_WORKER__API__ENABLED and"
                " DATARECS_DATABASE__CAPTURE__URL"
            )
        return self
