"""Port Scratch: the folder of one attempt, below the scratch folder of a worker."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from datarecs_application.ports.state import LeasedRun
from datarecs_core.runs.result_file import ARTEFACTS, MAX_BYTES, NAME


class LocalScratch:
    """Port Scratch below one directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def make(self, leased: LeasedRun) -> str:
        folder = self._root / f"{leased.run_id}-{leased.attempt}-{leased.lease_epoch}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
        return str(folder)

    def write_secret(self, folder: str, data: Mapping[str, str]) -> str:
        path = Path(folder) / "credentials.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(dict(data)), encoding="utf-8")
        return str(path)

    def read_result(self, folder: str) -> bytes | None:
        try:
            with (Path(folder) / NAME).open("rb") as file:
                return file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return None

    def artefacts(self, folder: str) -> Mapping[str, str]:
        root = Path(folder) / ARTEFACTS
        files = (
            Path(parent, name)
            for parent, _, names in os.walk(root, followlinks=False)
            for name in names
        )
        return {
            file.relative_to(root).as_posix(): str(file)
            for file in files
            if file.is_file() and not file.is_symlink()
        }

    def remove(self, folder: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)
