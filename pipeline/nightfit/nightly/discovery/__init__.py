"""Discovered levels: a paid question of their own run, whose answer later refits use.

- `procedure`: which counts are asked, with what noise and threshold, and what that costs
- `running`: plan, reserve, count and release

`nightly.told_levels` uses what was told.

Imports release, shards, ledger and packages below.
"""

from nightfit.nightly.discovery.procedure import Discovery
from nightfit.nightly.discovery.running import discover, explain, prepare_discovery

__all__ = ["Discovery", "discover", "explain", "prepare_discovery"]
