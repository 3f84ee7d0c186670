"""Tell by a program. Imports the standard library."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

LONGEST = 60.0  # seconds: a night does not wait longer for a program that tells of it


@dataclass(frozen=True, kw_only=True)
class Command:
    """A program, found from the configuration's folder, that reads the alert as JSON from its input; no shell reads its words."""

    words: tuple[str, ...]
    folder: Path
    name: str = "command"

    def send(self, content: dict[str, str | None], subject: str) -> None:
        subprocess.run(
            self.words,
            input=json.dumps({**content, "subject": subject}).encode(),
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LONGEST,
            check=True,
        )
