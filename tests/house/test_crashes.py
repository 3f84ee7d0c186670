"""A run of the tests whose processes end in the middle of a test: each such test is named once, and all others run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = f"""
import importlib.util, os, time
spec = importlib.util.spec_from_file_location("ours", {str(Path(__file__).parents[1] / "conftest.py")!r})
ours = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ours)
pytest_xdist_make_scheduler = ours.pytest_xdist_make_scheduler

def pytest_collection_modifyitems(items):
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw2":  # which replaces a crashed process: another crashes before it has collected
        time.sleep(5)
"""
ENDS = "import os, time\ndef test_ends():\n    time.sleep(1)\n    os._exit(1)\ndef test_after():\n    pass\n"


@pytest.mark.sweep
def test_tests_that_end_their_processes_are_named_once_and_the_others_run(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name, text in (("a", ENDS), ("b", ENDS), ("c", "def test_ok():\n    pass\n")):
        (tmp_path / f"test_{name}.py").write_text(text)
    words = ["-q", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "-p", "no:cacheprovider"]
    said = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert sorted(re.findall(r"^FAILED (test_\w+)\.py::test_ends", said.stdout, re.MULTILINE)) == ["test_a", "test_b"], said.stdout
    assert "2 failed, 3 passed" in said.stdout, said.stdout
