"""Runs one benchmark by the name of its file."""

import argparse
import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any

import benchmarks


def main() -> None:
    names = sorted(entry.name for entry in pkgutil.iter_modules(benchmarks.__path__) if not entry.name.startswith("_"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=benchmarks.__doc__)
    parser.add_argument("name", choices=names)
    parser.add_argument("--json", action="store_true", help='print JSON, such as {"ratios": {name: number}}, and nothing else')
    parser.add_argument("--data", type=Path, help="a folder of Parquet files, for benchmarks that measure on data")
    chosen = parser.parse_args()
    module = importlib.import_module(f"benchmarks.{chosen.name}")
    on = [] if chosen.data is None else [chosen.data]
    found: dict[str, Any] = module.content(*on) if hasattr(module, "content") else {"ratios": module.ratios(*on)}
    if chosen.json:
        print(json.dumps(found, indent=2))
        return
    shown = module.lines(found) if hasattr(module, "lines") else (f"{name:60} {ratio:9.4g}" for name, ratio in found["ratios"].items())
    print("\n".join(shown))


if __name__ == "__main__":
    main()
