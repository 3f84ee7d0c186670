"""Compiled code: its cache survives any order of losses and processes, its symbols are unique, and it lies outside of the package."""

import ast
import functools
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import nightfit
import nightfit_flows
from nightfit.numerics.compiled import compiled, compiled_ufunc
from nightfit.numerics.fused_loops import bounded_sum_loop, gradient_sum_loop, pointwise
from nightfit.plugins import members
from nightfit.problem import losses
from nightfit.queries import boundings
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.kernels import gradient_sums
from nightfit.types import Block

LOSSES = sorted(members(losses))
CLIP = L2Clip(bound=1.0)

# For each list of losses a fork of a process that has imported and compiled nothing: it uses the losses one after the other and tells the
# results and how many functions it compiled. All forks at once, or one after the other.
PROGRAM = f"""
import json, os, sys
sys.path[:0] = {[str(Path(__file__).parent)]!r}
from numba.core.event import install_recorder
from test_compiled_cache import results

orders, at_once = json.loads(sys.argv[1])
children = []
for number, names in enumerate(orders):
    child = os.fork()
    if child == 0:
        with install_recorder("numba:compile") as recorder:
            found = results(names)
        with open(f"told-{{number}}", "w") as told:
            json.dump([found, len(recorder.buffer)], told)
        os._exit(0)
    children.append(child)
    if not at_once:
        assert os.waitpid(child, 0)[1] == 0, names
assert not at_once or all(os.waitpid(child, 0)[1] == 0 for child in children)
"""


def results(names: Iterable[str]) -> dict[str, Any]:
    """For each loss: the slopes, the values and the sum of clipped gradients of a few rows."""
    rng = np.random.default_rng(0)
    X, y, weights = rng.normal(size=(9, 3)), np.sign(rng.normal(size=9)), rng.normal(size=3)
    z = X @ weights
    found = {}
    for name in names:
        loss = members(losses)[name][0]
        slopes, values = loss.slope(y, z), loss.value(y, z)
        found[name] = [slopes.tolist(), values.tolist(), gradient_sums(Block(X, y), weights, loss, CLIP, None, 1, 30).tolist()]
    return found


@functools.cache
def expected(name: str) -> Any:
    return results([name])[name]


def run(place: Path, *orders: Sequence[str], at_once: bool = False, cache: str = "cache") -> list[int]:
    """How many functions each process compiled; each must have found what this process finds."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([orders, at_once])],
        env={**os.environ, "NUMBA_CACHE_DIR": str(place / cache)},
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads((place / f"told-{number}").read_text()) for number in range(len(orders))]
    assert [found for found, _ in told] == [{name: expected(name) for name in names} for names in orders]
    return [compiled_functions for _, compiled_functions in told]


# -- any order of losses and processes ---------------------------------------------------------------------------------------------------


def check_in_turn(place: Path, names: Sequence[str]) -> None:
    """Each process compiles one loss more, first of all that it compiles, so that Numba's counter gives all loops the same number."""
    *counts, warm, backwards = run(place, *(names[:count] for count in range(1, len(names) + 1)), names, names[::-1])
    assert all(counts)
    assert (warm, backwards) == (0, 0)


@pytest.mark.process
def test_losses_in_turn_survive_a_warm_cache(tmp_path: Path) -> None:
    """When loops had one name too, the first process that read two of them from the cache died."""
    check_in_turn(tmp_path, LOSSES[:3])
    assert not list(Path(nightfit.__path__[0]).rglob("*.nb[ci]"))


@pytest.mark.sweep
def test_all_losses_in_turn_survive_a_warm_cache(tmp_path: Path) -> None:
    check_in_turn(tmp_path, LOSSES)


@pytest.mark.sweep
@pytest.mark.parametrize("pair", list(itertools.permutations(LOSSES, 2)), ids=" then ".join)
def test_every_pair_of_losses_survives_a_warm_cache(tmp_path: Path, pair: tuple[str, str]) -> None:
    assert run(tmp_path, pair[:1], pair, pair, pair[::-1])[2:] == [0, 0]


@pytest.mark.process
def test_processes_fill_one_cache_at_once(tmp_path: Path) -> None:
    """None of them waits for another, and what they leave is complete and right."""
    first, second = LOSSES[:2]
    run(tmp_path, (first, second), (second, first), at_once=True)
    assert run(tmp_path, (first, second)) == [0]
    assert {path.suffix for path in (tmp_path / "cache").rglob("*") if path.is_file()} == {".nbc"}


@pytest.mark.sweep
def test_a_damaged_cache_is_compiled_again(tmp_path: Path) -> None:
    assert run(tmp_path, LOSSES[:1]) > [0]
    files = list(tmp_path.rglob("*.nbc"))
    for number, file in enumerate(files):
        file.write_bytes(file.read_bytes()[: 0 if number % 2 else 1000])
    assert run(tmp_path, LOSSES[:1]) > [0]
    assert run(tmp_path, LOSSES[:1]) == [0]


@pytest.mark.process
def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert run(tmp_path, LOSSES[:1], cache="file/cache") > [0]


# -- what the cached code depends on -----------------------------------------------------------------------------------------------------

FORMULA = """
import numpy as np
from numba.extending import register_jitable
from nightfit.numerics.compiled import compiled
from nightfit.numerics.fused_loops import pointwise
import constants
from constants import SHIFT
from helpers import twice

@register_jitable
def formula(y, z, k):
    return k * twice(y) + z + SHIFT + 2.0 * constants.OTHER

@compiled
def plain(y):
    return twice(y)

f = pointwise(formula)
found = [f(np.ones(1), np.ones(1), 2.0)[0], plain(1.0)]
print(*found, *(sum(function.stats.cache_hits.values()) for function in (f, plain)))
"""
HELPER = """
from nightfit.numerics.compiled import compiled

@compiled
def twice(x):
    return 2.0 * x
"""
CONSTANTS = "SHIFT, OTHER = 0.0, 0.5\n"


@pytest.mark.process
def test_an_edited_source_is_compiled_again(tmp_path: Path) -> None:
    """Numba's own cache would go on using the old machine code: the file that holds the loop did not change."""
    for name, text in (("formulas.py", FORMULA), ("helpers.py", HELPER), ("constants.py", CONSTANTS)):
        (tmp_path / name).write_text(text)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": path}

    def used() -> list[float]:
        command = [sys.executable, "-B", "-c", "import formulas"]
        return [float(word) for word in subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()]

    def edited(name: str, old: str, new: str) -> list[float]:
        (tmp_path / name).write_text((tmp_path / name).read_text().replace(old, new))
        return used()[:2]

    assert used() == [6.0, 2.0, 0, 0]
    assert used() == [6.0, 2.0, 1, 1]
    assert edited("formulas.py", "+ z", "- z") == [4.0, 2.0]
    (tmp_path / "helpers.py").write_text(HELPER.replace("2.0 * x", "3.0 * x"))
    assert edited("constants.py", "SHIFT, OTHER = 0.0, 0.5", "OTHER, SHIFT = 0.0, 0.5") == [5.5, 3.0]


# -- symbols and the compiler ------------------------------------------------------------------------------------------------------------


def test_no_two_loops_have_one_name() -> None:
    """Numba makes a symbol from the module, the name and the argument types of a function."""
    slopes = [formula[0] for (example, *_) in members(losses).values() if (formula := example.formula()) is not None]
    pairs = [found for (example, *_) in members(boundings).values() if (found := example.formulas(3, 30)) is not None]
    loops: list[Any] = [pointwise(slope) for slope in slopes]
    loops += [bounded_sum_loop(pair.factor, pair.steps) for pair in pairs]
    loops += [gradient_sum_loop(slope, pair.factor, pair.steps) for slope in slopes for pair in pairs]
    assert len(slopes) >= 6
    assert len(pairs) >= 4
    assert len({(loop.__module__, loop.py_func.__qualname__) for loop in loops}) == len(loops)


def test_a_closure_is_named_after_what_it_closes_over() -> None:
    def made(number: float) -> Any:
        def inner(x):  # type: ignore[no-untyped-def]
            return x + number

        return inner

    first, second, again = (compiled(made(number)) for number in (1.0, 2.0, 1.0))
    assert first.py_func.__qualname__ != second.py_func.__qualname__
    assert first.py_func.__qualname__ == again.py_func.__qualname__
    assert (first(1.0), second(1.0), again(1.0)) == (2.0, 3.0, 2.0)
    assert compiled_ufunc(made(3.0))(np.ones(2)).tolist() == [4.0, 4.0]


def test_only_our_decorators_call_the_compiler() -> None:
    """`numba.njit` and its kin write into the package and know nothing of unique symbols."""
    found = set()
    for package in (nightfit, nightfit_flows):
        root = Path(package.__path__[0])
        for path in root.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
                if name in ("jit", "njit", "vectorize", "guvectorize", "cfunc", "stencil", "jitclass", "generated_jit"):
                    found.add((path.relative_to(root).as_posix(), name))
    assert found <= {("numerics/compiled.py", "njit"), ("numerics/compiled.py", "vectorize")}


def test_only_our_loops_are_told_not_to_interleave(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def total(x):  # type: ignore[no-untyped-def]
        found = 0.0
        for value in x:
            found += value
        return found

    monkeypatch.setattr(numba.config, "DUMP_LLVM", 1)
    written = []
    for compile_ in (compiled, numba.njit):
        function = compile_(total)
        if compile_ is compiled:
            function._cache.disable()
        assert function(np.ones(3)) == 3.0
        written.append("llvm.loop.interleave.count" in capsys.readouterr().out)
    assert written == [True, False]


# -- where it is kept --------------------------------------------------------------------------------------------------------------------

FIT = """
import numpy as np
from nightfit.estimators import PrivateLinearRegression
X = np.random.default_rng(0).uniform(-1, 1, (500, 3))
method = {"mean": "clipped", "steps": 2, "bound": 1.0, "scales": "public"}
PrivateLinearRegression(epsilon=1.0, delta=1e-6, bounds=(-1, 1), target_bounds=(-4, 4), method=method).fit(X, X @ [1.0, -1.0, 0.5])
import nightfit
print(nightfit.__file__)
"""


@pytest.mark.sweep
def test_a_fit_writes_nothing_into_the_package(tmp_path: Path) -> None:
    """Machine code goes to the user's cache folder, below the package's version."""
    site, home = tmp_path / "site", tmp_path / "home"
    for package in (nightfit, nightfit_flows):
        root = Path(package.__path__[0])
        shutil.copytree(root, site / root.name, ignore=shutil.ignore_patterns("__pycache__"))
    home.mkdir()
    before = {path.relative_to(site) for path in site.rglob("*")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    environment = {**kept, "HOME": str(home), "PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-B", "-c", FIT], env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == site / "nightfit" / "__init__.py"
    assert {path.relative_to(site) for path in site.rglob("*")} == before
    cache = home / ".cache" / "nightfit" / "numba" / nightfit.__version__
    assert len(list(cache.glob("nightfit.*.nbc"))) > 1
    assert cache.stat().st_mode & 0o077 == 0
