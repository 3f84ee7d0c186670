"""refit.yaml: every choice of a refit, validated before anything is read.

- `model`: `Config`, the whole file
- `sections`: its sections, each validated by itself
- `loading`: `load` a file, `parse` plain data, the JSON `schema`
- `encodings`: which features the described columns make
- `specifications`: from a configuration and a manifest to a plan's specification
- `grid`: one configuration for each setting of a search
- `faults`: `ConfigError`, and faults in words
- `template`, `from_schema`: the file that `nightfit init` writes, for the bundled data or from a schema

Imports pydantic, yaml and packages below.
"""

from nightfit.config.faults import ConfigError
from nightfit.config.loading import configurations, load, parse, schema
from nightfit.config.model import Config, folder_name, resolved

__all__ = ["Config", "ConfigError", "configurations", "folder_name", "load", "parse", "resolved", "schema"]
