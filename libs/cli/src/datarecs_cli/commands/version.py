"""`datarecs version`."""

from importlib.metadata import version as installed_version


def release() -> str:
    """The release of this installation, as the package manager knows it."""
    return installed_version("datarecs")


def version() -> None:
    """Print the version."""
    print(f"datarecs {release()}")
