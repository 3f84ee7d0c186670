"""Speed as ratios of things measured in the same run, and accuracy beside its theory: `python -m benchmarks NAME [--json]`. Imports the
package, never the tests.
"""
