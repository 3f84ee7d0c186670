"""A run of the tests that ends, or whose processes end, in the middle of a test: each such test is named once, and all others run."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = f"""
import importlib.util, os, time
spec = importlib.util.spec_from_file_location("ours", {str(Path(__file__).parents[1] / "conftest.py")!r})
ours = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ours)
pytest_configure = ours.pytest_configure
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


STOPS = {
    "interrupted": "os.kill(os.getpid(), signal.SIGINT)",
    "terminated": "os.kill(os.getpid(), signal.SIGTERM)",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "timed out": "time.sleep(600)",
}
SWEPT = {"terminated", "killed"}


def _hears_interrupts() -> None:
    """A run that a shell started in the background ignores SIGINT, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(
    "stop", [pytest.param(stop, marks=pytest.mark.sweep if name in SWEPT else pytest.mark.process, id=name) for name, stop in STOPS.items()]
)
def test_a_run_that_is_stopped_names_the_test_that_ran(tmp_path: Path, stop: str) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_a.py").write_text(f"import os, signal, time\ndef test_before():\n    pass\ndef test_runs():\n    {stop}\n")
    timeout = ["-o", "faulthandler_timeout=0.5", "-o", "faulthandler_exit_on_timeout=true"]
    words = ["-q", "-p", "no:cacheprovider", *timeout]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    said = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=_hears_interrupts,
    )
    assert said.returncode != 0
    assert re.findall(r"^STOPPED (.*)$", said.stdout, re.MULTILINE) == ["test_a.py::test_runs"], said.stdout + said.stderr
