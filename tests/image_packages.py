"""Lists the locked packages that each image installs, from the metadata of what is installed.

    python -m tests.image_packages --write

The Dockerfile selects these names in requirements.lock, so that it resolves nothing.
"""

import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import distribution
from itertools import product
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LISTS = {
    "datarecs": ("server", "otlp", "iceberg"),
    "spark": ("server", "otlp", "iceberg", "spark"),
}
"""List to the extras of its image; the second image is built on the first one."""
PLATFORMS: tuple[Mapping[str, str], ...] = tuple(
    {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": machine,
        "os_name": "posix",
    }
    for python, machine in product(("3.11", "3.12", "3.13", "3.14"), ("x86_64", "aarch64"))
)
"""What BASE may be; a package of one of them is listed, and its marker in the lock decides."""


def packages(extras: Sequence[str]) -> set[str]:
    """Names of all packages that `datarecs[extras]` requires on Linux, without itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [*project["dependencies"]]
    for extra in extras:
        texts += project["optional-dependencies"][extra]
    waiting, known = [Requirement(text) for text in texts], dict[str, set[str]]()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        wanted = known.get(name, set()) | requirement.extras
        if known.get(name) != wanted:
            known[name] = wanted
            waiting += _requirements(name, wanted)
    return set(known) - {"datarecs"}


def _requirements(name: str, extras: set[str]) -> Iterator[Requirement]:
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(
            marker.evaluate({**platform, "extra": extra})
            for platform, extra in product(PLATFORMS, ("", *extras))
        ):
            yield requirement


def lists() -> dict[Path, str]:
    """File to its text; the list of the second image has only what the first one lacks."""
    texts, listed = dict[Path, str](), set[str]()
    for name, extras in LISTS.items():
        added = packages(extras) - listed
        texts[ROOT / f"services/packages-{name}.txt"] = "".join(f"{one}\n" for one in sorted(added))
        listed |= added
    return texts


if __name__ == "__main__":
    for path, text in lists().items():
        if "--write" in sys.argv:
            path.write_text(text, encoding="utf-8")
        else:
            sys.stdout.write(f"# {path.name}\n{text}")
