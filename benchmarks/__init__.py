"""Speed as ratios of things measured in the same run: `python -m benchmarks NAME [--json]`. Imports the package, never the tests."""
