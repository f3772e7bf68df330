"""`python -m datarecs_events.schemas`: writes `events-schema/`, or prints its differences.

Also the check before a release: `--against` takes the folder of an older release and refuses
changes that break its readers.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from datarecs_events.compatibility import breaking_changes
from datarecs_events.publishing import published_files

FOLDER = Path("events-schema")


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write exactly these files to the folder and remove others."""
    for path in _stale(folder, files):
        path.unlink()
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def differences(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Names of files that are missing, extra or different."""
    wrong = [
        name
        for name, text in files.items()
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text
    ]
    return sorted([*wrong, *(str(path.relative_to(folder)) for path in _stale(folder, files))])


def broken_promises(older: Path, files: Mapping[str, str]) -> list[str]:
    """Changes that break readers of an older folder, by type."""
    broken = []
    for path in sorted(older.glob("*/1.json")):
        name = path.relative_to(older).as_posix()
        if name not in files:
            broken.append(f"{name}: the type is missing")
            continue
        old = json.loads(path.read_text(encoding="utf-8"))
        broken += [f"{name}: {one}" for one in breaking_changes(old, json.loads(files[name]))]
    return broken


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m datarecs_events.schemas", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="write the folder")
    what.add_argument("--check", action="store_true", help="fail if the folder differs")
    what.add_argument(
        "--against", type=Path, help="fail if the schemas break readers of this folder"
    )
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    options = parser.parse_args(arguments)
    files = published_files()
    if options.write:
        write_files(options.folder, files)
        return 0
    if options.against is not None:
        return _report(broken_promises(options.against, files), "create a new type instead")
    return _report(differences(options.folder, files), "run `make schemas`")


def _stale(folder: Path, files: Mapping[str, str]) -> list[Path]:
    paths = [*folder.rglob("*.json"), *folder.rglob("*.md"), *folder.rglob("*.yaml")]
    return [path for path in paths if path.relative_to(folder).as_posix() not in files]


def _report(faults: Sequence[str], remedy: str) -> int:
    for fault in faults:
        sys.stderr.write(f"{fault}\n")
    if faults:
        sys.stderr.write(f"{remedy}\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
