"""`datarecs version`: prints the release."""

from importlib.metadata import version as installed_version


def release() -> str:
    """The release of this installation, from the metadata of its package."""
    return installed_version("datarecs")


def version() -> None:
    """Print the version."""
    print(f"datarecs {release()}")
