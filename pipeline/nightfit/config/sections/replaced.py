"""Keys of `data` that `data.columns` replaced: the new form of what was written. Imports yaml."""

import math
from collections.abc import Mapping
from typing import Any

import yaml

REPLACED = ("bounds", "default_bounds", "features")


def check_replaced(written: Any) -> None:
    """Refuse the keys `bounds`, `default_bounds` and `features`, with the new form of exactly what was written."""
    if not isinstance(written, Mapping):
        return
    old = [key for key in REPLACED if written.get(key) is not None]
    if old:
        raise ValueError(
            f"data.columns replaces {' and '.join(old)}: write instead\n" + "\n".join(f"    {line}" for line in new_form(written))
        )


def new_form(written: Mapping[str, Any]) -> list[str]:
    """Lines of YAML that say with `target`, `columns` and `default` what `bounds`, `default_bounds` and `features` said."""
    bounds = written["bounds"] if isinstance(written.get("bounds"), Mapping) else {}
    target, listed, others = written.get("target"), written.get("features"), written.get("default_bounds")
    lines = [f"target: {_flow({'column': target, 'bounds': bounds[target]})}"] if target in bounds else []
    named = listed if isinstance(listed, list) else [name for name in bounds if name != target]
    if named:
        lines.append("columns:")
    for name in named:
        pair = bounds.get(name, others)
        lines.append(f"  {_flow({name: {'kind': 'number'} | ({} if pair is None else {'bounds': pair})})[1:-1]}")
    if not isinstance(listed, list):
        lines.append(f"default: {_flow({'kind': 'number'} | ({} if others is None else {'bounds': others}))}")
    return lines


def _flow(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=math.inf, sort_keys=False).strip()
