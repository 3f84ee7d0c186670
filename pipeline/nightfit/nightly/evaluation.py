"""Judge a released model on labelled data of its own, for which the ledger has a policy. Imports release, ledger and below."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nightfit.evaluation import Fitted, HeldOut, judge_of
from nightfit.ledger import Binding, Ledger, LedgerError, Policy, Reservation, Run
from nightfit.ledger.policy import ALL
from nightfit.nightly.execution import refunded_if_unasked
from nightfit.nightly.witness import check_not_older, remember
from nightfit.planning.defaults import MOST_ROWS
from nightfit.planning.specification import Budget
from nightfit.plugins import member
from nightfit.privacy.accounting import tight_epsilon
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import NoNoise, OperatingSystemNoise
from nightfit.problem import losses
from nightfit.problem.losses import Loss
from nightfit.problem.losses.softmax import Softmax
from nightfit.queries.weighted_counts import Groups
from nightfit.records.preprocessing import Preprocessing
from nightfit.release import Release, write_atomically
from nightfit.release.assumptions import Assumption
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.exact_metrics import exact_metrics
from nightfit.shards.manifest import DataError, Manifest, check_unchanged, scan
from nightfit.shards.schema import check_id_column, check_kinds, check_target
from nightfit.types import Adjacency, NightfitError, person_of

EVERYBODY = 1.0


@dataclass(frozen=True, kw_only=True)
class TestData:
    """Labelled records that a model is judged on.

    Parameters
    ----------
    source : str
        File, glob or folder.
    name : str
        Of the data set whose policy pays.
    units : int or None
        The public number of persons, or of records under add_remove; None where rows are counted in footers.
    by : str or None
        A category of the model's columns, for each of whose levels the metrics are told too.
    """

    __test__ = False

    source: str
    name: str
    units: int | None = None
    by: str | None = None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What an evaluation will ask, and of which files; nothing is read before it is reserved."""

    release: Release
    data: TestData
    manifest: Manifest
    shape: Preprocessing
    asked: HeldOut
    budget: Budget
    trusted: bool

    def describe(self) -> dict[str, Any]:
        """The facts that identify it, as plain data."""
        return {
            "evaluates": self.release.claim.binding.content,
            "data_set": self.data.name,
            "trusted": self.trusted,
            "units": self.asked.units,
            **({} if self.data.by is None else {"by": self.data.by}),
            "events": [event.as_dict() for event in self.asked.events],
        }

    def digest(self) -> str:
        """SHA-256 of them."""
        return hashlib.sha256(json.dumps(self.describe(), sort_keys=True).encode()).hexdigest()

    @property
    def epsilon(self) -> float:
        """What it costs at the budget's delta."""
        return tight_epsilon(self.asked.events, self.budget.delta)


def prepare_evaluation(
    release: Release, data: TestData, ledger: Ledger, *, epsilon: float, delta: float | None = None, trusted: bool = False
) -> Evaluation:
    """Plan an evaluation from public facts: the release, the footers and the policy. No row is read.

    Parameters
    ----------
    release : Release
        The model.
    data : TestData
        What it is judged on.
    ledger : Ledger
        That has a policy for the data.
    epsilon, delta : float
        What it may cost; a tenth of the policy's delta by default.
    trusted : bool
        Whether the numbers are exact, and private to nobody.

    Returns
    -------
    Evaluation

    Raises
    ------
    LedgerError, DataError, NightfitError
        If the data have no policy, or do not suit the model, with the cure.
    """
    _check_is_private(release, trusted)
    policy = ledger.policies().get(data.name)
    if policy is None:
        raise LedgerError(
            f"the ledger has no policy for {data.name!r}: what may be told of labelled data is decided once, "
            f"with `nightfit ledger policy set {data.name} --epsilon 1 --delta 1e-5 --adjacency replace_one`"
        )
    loss = loss_of(release)
    manifest = scan(data.source)
    shape = _shape(release, policy, manifest)
    units = _units(data, policy, manifest)
    budget = _budget(policy, epsilon, policy.delta / 10 if delta is None else delta)
    asked = HeldOut(
        share=EVERYBODY,
        loss=loss,
        shape=shape,
        adjacency=policy.adjacency,
        units=units,
        largest_units=max(units, manifest.rows) if _counted(policy) else MOST_ROWS,
        mu_squared=budget.mu_squared(),
        by=None if data.by is None else _group_column(shape, data.by),
        classes=release.classes,
    )
    return Evaluation(release=release, data=data, manifest=manifest, shape=shape, asked=asked, budget=budget, trusted=trusted)


def _check_is_private(release: Release, trusted: bool) -> None:
    """Refuse to promise privacy for numbers about a model that has none: it may have been fitted on these very records."""
    if not release.private and not trusted:
        raise NightfitError(
            f"the release of run {release.run_id} is not private, so what is told of it is not either: evaluate a private release, or see "
            "exact numbers with --trusted --unsafe if nobody but the data's owner sees them"
        )


def _group_column(shape: Preprocessing, by: str) -> str:
    """The column, if it is one that groups can be told of."""
    try:
        return Groups.of_category(shape, by).column
    except ValueError as error:
        raise NightfitError(f"--{error}") from None


def _budget(policy: Policy, epsilon: float, delta: float) -> Budget:
    try:
        return Budget(
            epsilon=epsilon,
            delta=delta,
            adjacency=policy.adjacency,
            unit=policy.unit,
            currency=policy.currency,
            earlier_rows=policy.earlier_rows,
        )
    except ValueError as error:
        raise NightfitError(f"nothing can be asked for this: {error}") from None


def loss_of(release: Release) -> Loss:
    """The loss that a release was fitted by, with the range that it paid for.

    Raises
    ------
    NightfitError
        If nothing can be judged by it.
    """
    stored = {name: value for name, value in release.content["plan"]["loss"].items() if name != "kind"}
    kind = release.content["plan"]["loss"]["kind"]
    loss: Any = (Softmax if kind == Softmax.name else member(losses, kind))(**stored)
    if judge_of(loss) is None:
        raise NightfitError(f"{release.name}: means of columns, and scores that are no probabilities, are not evaluated")
    made: Loss = loss.within(*release.content["range"]) if "range" in release.content else loss
    return made


def run_evaluation(planned: Evaluation, ledger: Ledger, folder: Path, *, again: bool = False) -> tuple[dict[str, Any], Path]:
    """Reserve, ask and write an evaluation.

    Parameters
    ----------
    planned : Evaluation
        What to ask.
    ledger : Ledger
        That pays.
    folder : Path
        Where `evaluation-RUN.json` is written.
    again : bool
        Ask once more what was asked of the same files before; this spends again.

    Returns
    -------
    tuple of dict and Path
        What was found, and where it lies.
    """
    check_not_older(ledger)
    run = ledger.reserve(_reservation(planned), again=again)
    remember(ledger)
    with ledger.hold(run.run_id), refunded_if_unasked(ledger, run):
        check_unchanged(planned.manifest)
        with ShardedDataset(planned.manifest, planned.shape, passes=len(planned.asked.events)) as records:
            records.stage()
            gate = Gate(account=run, records=records, noise=NoNoise() if planned.trusted else OperatingSystemNoise())
            fitted = Fitted(weights=planned.release.weights, preprocessing=planned.release.preprocessing, loss=None)
            found = planned.asked.run(gate, fitted, exact=planned.trusted)
        if planned.trusted:
            found = {**found, "exact": _exact(planned)}
    content = _content(planned, run, found)
    receipt = run.finish(Binding.of(content))
    path = folder / f"evaluation-{run.run_id}.json"
    write_atomically(path, json.dumps({**content, "receipt": receipt.as_dict()}, indent=2, allow_nan=False) + "\n")
    return content, path


def _exact(planned: Evaluation) -> dict[str, float]:
    """The usual metrics over every record; what the queries answer without noise still has their clips and bins."""
    release = planned.release
    return exact_metrics(planned.manifest, release.preprocessing, release.weights, release.link)


def _content(planned: Evaluation, run: Run, found: dict[str, Any]) -> dict[str, Any]:
    private = not planned.trusted
    guarantee = {
        "epsilon": planned.epsilon,
        "delta": planned.budget.delta,
        "adjacency": str(planned.budget.adjacency),
        "unit": planned.budget.unit,
        "assumptions": [str(assumption) for assumption in _assumptions(planned)],
    }
    return {
        "nightfit_evaluation": 1,
        "model": planned.release.name,
        "evaluates": planned.release.run_id,
        "run": run.run_id,
        "data_set": planned.data.name,
        "time": run.started,
        "private": private,
        "guarantee": guarantee if private else None,
        "evaluation": {**found, "share": EVERYBODY},
        "plan_digest": planned.digest(),
        "events": [event.as_dict() for event in planned.asked.events],
    }


def _assumptions(planned: Evaluation) -> list[Assumption]:
    counted, person = planned.data.units is None, planned.shape.unit is not None
    return [
        Assumption.EXACT_INTEGERS,
        Assumption.BOUNDS_ARE_PUBLIC,
        Assumption.ROW_COUNT_IS_PUBLIC if counted else Assumption.STATED_UNITS_ARE_PUBLIC,
        Assumption.PERSON_IDS_ARE_TRUE if person else Assumption.RECORDS_ARE_UNITS,
        *([] if planned.budget.earlier_rows is None else [Assumption.EARLIER_ROWS_ARE_BOUNDED]),
        Assumption.ONE_LEDGER,
        Assumption.ENTROPY_IS_SECRET,
    ]


def _reservation(planned: Evaluation) -> Reservation:
    """One price for all of the data; the model's name says that it is no refit."""
    by = planned.data.by
    return Reservation(
        model=f"{planned.release.name}-evaluation",
        data_set=planned.data.name,
        unit=planned.budget.unit,
        plan=planned.digest(),
        events=planned.asked.events,
        window=json.dumps([planned.release.run_id, planned.manifest.identity(), *([] if by is None else [by])]),
        manifest=planned.manifest.identity(),
        files=tuple(planned.manifest.fingerprints()),
        private=not planned.trusted,
    )


def _shape(release: Release, policy: Policy, manifest: Manifest) -> Preprocessing:
    """How the data's rows are read: as the model's, grouped by the policy's unit."""
    if policy.blocks != ALL:
        raise LedgerError(f"{policy.data_set!r} is divided by {policy.blocks}: evaluate on a data set whose policy has the blocks all")
    shape, person = release.preprocessing, person_of(policy.unit)
    check_kinds(manifest, shape.encoded, fitted=True)
    if shape.target is not None:
        check_target(manifest, shape.target, shape.outcome)
    if person is not None:
        check_id_column(manifest, person)
    return replace(shape, unit=person, rows_per_unit=shape.rows_per_unit if person == shape.unit else 100 if person else 1)


def _units(data: TestData, policy: Policy, manifest: Manifest) -> int:
    """The public number of units: of rows as footers count them, or as it was stated."""
    if _counted(policy) and data.units is not None:
        raise DataError("--units is for persons and for add_remove: the number of rows is public here, and counted")
    if not _counted(policy) and data.units is None:
        raise DataError("how many units there are is private here: state a public number with --units")
    return manifest.rows if data.units is None else data.units


def _counted(policy: Policy) -> bool:
    return policy.adjacency is not Adjacency.ADD_REMOVE and person_of(policy.unit) is None
