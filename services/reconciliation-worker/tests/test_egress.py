"""What the operator allows and denies holds in the child as well: drivers dial from there."""

from ipaddress import ip_network
from pathlib import Path

from datarecs_application.child_frames import Reader
from datarecs_connectors.surroundings import egress_policy_of
from datarecs_core.egress.addresses import Profile
from datarecs_reconciliation_worker.settings import Settings
from datarecs_reconciliation_worker.wiring import hello_frame
from datarecs_runtime.blob_section import Blob
from datarecs_runtime.child_surroundings import egress_policy
from datarecs_runtime.sections import AllowedCidrs, Egress


def test_the_child_dials_what_its_supervisor_may_dial_and_no_more(tmp_path: Path) -> None:
    egress = Egress(
        allowed_cidrs=AllowedCidrs(connection=(ip_network("10.1.0.0/16"),)),
        denied_cidrs=(ip_network("10.1.9.0/24"), ip_network("fd00::/8")),
    )
    blob = Blob(url=tmp_path.as_uri())
    settings = Settings.model_construct(profile=Profile.SERVER, egress=egress, blob=blob)
    policy = egress_policy_of(Reader(hello_frame(settings, tmp_path)))
    assert policy == egress_policy(settings)
    assert policy.denied_cidrs == egress.denied_cidrs
