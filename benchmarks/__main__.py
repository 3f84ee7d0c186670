"""Runs one benchmark by the name of its file."""

import argparse
import importlib
import json
import pkgutil
from pathlib import Path

import benchmarks


def main() -> None:
    names = sorted(entry.name for entry in pkgutil.iter_modules(benchmarks.__path__) if not entry.name.startswith("_"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=benchmarks.__doc__)
    parser.add_argument("name", choices=names)
    parser.add_argument("--json", action="store_true", help='print {"ratios": {name: number}} and nothing else')
    parser.add_argument("--data", type=Path, help="a folder of Parquet files, for benchmarks that measure on data")
    chosen = parser.parse_args()
    module = importlib.import_module(f"benchmarks.{chosen.name}")
    ratios: dict[str, float] = module.ratios(chosen.data) if chosen.data is not None else module.ratios()
    if chosen.json:
        print(json.dumps({"ratios": ratios}, indent=2))
        return
    for name, ratio in ratios.items():
        print(f"{name:60} {ratio:9.4g}")


if __name__ == "__main__":
    main()
