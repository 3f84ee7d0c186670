"""The verifier without nightfit: `python -m verifier RELEASE.json [CHAIN.jsonl]`."""

import json
import sys
from pathlib import Path

from . import verify


def main(release: str, chain: str | None = None) -> int:
    """Print what was found; 1 if something is wrong."""
    entries = None if chain is None else [json.loads(line) for line in Path(chain).read_text().splitlines()]
    verdict = verify(json.loads(Path(release).read_text()), entries)
    for word, lines in (("found", verdict.found), ("WRONG", verdict.wrong), ("trusted", verdict.trusted)):
        for line in lines:
            print(f"{word}: {line}")
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
