"""Importing our packages changes nothing outside of them: no environment, files, signals, warnings, logging or compiler options."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import nightfit
import nightfit_flows

ROOTS = [Path(package.__path__[0]) for package in (nightfit, nightfit_flows)]

# Imports what our modules import of others, whose effects are not ours, and then every module of ours; prints what the second changed.
PROGRAM = """
import contextlib, importlib, json, logging, os, pkgutil, signal, sys, threading, warnings

theirs, ours = json.loads(sys.argv[1])
for name in theirs:
    with contextlib.suppress(ImportError):  # one that is imported in a function may not be installed
        importlib.import_module(name)
import llvmlite.binding, numba, numpy as np

said = []
llvmlite.binding.set_option = lambda *words: said.append(f"LLVM option {words}")
WRITES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.symlink", "os.link", "os.truncate", "os.putenv",
          "os.unsetenv", "subprocess.Popen", "os.fork", "os.posix_spawn", "socket.bind", "socket.connect", "tempfile.mkstemp"}

def audit(event, words):
    writes = event == "open" and isinstance(words[2], int) and words[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writes or event in WRITES:
        said.append(f"{event} {words}")

def state():
    names = [None, *logging.root.manager.loggerDict]
    loggers = {name: logging.getLogger(name) for name in names}
    return {
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "path": [*sys.path],
        "finders": [*map(repr, sys.meta_path)],
        "warnings": [*map(repr, warnings.filters)],
        "handlers": {str(name): [logger.level, logger.disabled, *map(repr, logger.handlers)] for name, logger in loggers.items()},
        "signals": {number: repr(signal.getsignal(number)) for number in signal.valid_signals()},
        "threads": threading.active_count(),
        "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__],
        "numpy": [np.geterr(), np.get_printoptions()],
        "numba": {name: repr(value) for name, value in vars(numba.config).items() if name.isupper()},
        "random": [repr(np.random.get_state()), repr(__import__("random").getstate())],
        "umask": os.umask(0o077),
    }

os.umask(0o077)
before = state()
sys.addaudithook(audit)
modules = []
for root in ours:
    package = importlib.import_module(root)
    modules += [found.name for found in pkgutil.walk_packages(package.__path__, f"{root}.")]
for name in modules:
    importlib.import_module(name)
heard, after = [*said], state()
known = before["handlers"].keys()
after["handlers"] = {name: found for name, found in after["handlers"].items() if name in known or found[0] or found[2:]}
changed = [name for name in before if before[name] != after[name]]
print(json.dumps([modules, heard, {name: [repr(before[name]), repr(after[name])] for name in changed}]))
"""


def _imported() -> list[str]:
    """The modules of others that ours import, at once or in a function."""
    found = set()
    for root in ROOTS:
        for path in root.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    found |= {name.name for name in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    found.add(node.module)
    ours = {root.name for root in ROOTS}
    return sorted(name for name in found if name.split(".")[0] not in ours)


@pytest.mark.process
def test_importing_every_module_changes_nothing_else(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "NUMBA_", "XDG_"))}
    environment |= {"HOME": str(tmp_path), "DO_NOT_TRACK": "1"}
    words = json.dumps([_imported(), [root.name for root in ROOTS]])
    done = subprocess.run([sys.executable, "-B", "-c", PROGRAM, words], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    modules, heard, changed = json.loads(done.stdout)
    assert len(modules) > 150
    assert {"nightfit.numerics.dot_products", "nightfit.cli.refits", "nightfit_flows.refit", "nightfit_flows.settings"} <= set(modules)
    assert heard == []
    assert changed == {}
