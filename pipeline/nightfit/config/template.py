"""The configuration that `nightfit init` writes: every key, commented. Imports yaml."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

TEMPLATE = """\
# One private refit. `nightfit plan {name}` says what it would cost; `nightfit refit {name}` runs it.
name: {model:<32}# the model's name

data:
  name: {data_set:<30}# the data set's name in the ledger (default: the folder's name)
  path: {path:<30}# file, glob, folder (hive or flat) or fsspec URL of Parquet shards; relative to this file
                                      # a lake table: its folder, with format: delta or iceberg, and version: 12 for one but the newest
                                      # a store's options: storage_options: {{endpoint_url: ...}}; its secrets: from the environment
  target: {target:<28}# the column to be predicted; or {{column: .., bounds: [low, high]}}, which clamps it, with more for some kinds:
                                      # positive: died, or classes: [home, died] (labels, matched exactly); transform: log1p; exposure: days
  columns:{about}
{columns}
  {default}
  {exclude}
  {unit}
  {units}
  # rows_per_unit: 100                # how many rows of a person are used at most; needs a person's column in unit
  {row_id}
  {blocks}
                                      # each block has a lifetime budget of its own, and a refit charges those that it reads
  # window: 2026-W46                  # a name for what is read (default: what the files are now); with blocks of a hive key
                                      # `last 30 blocks` or a list of them, with hash:64 `rotate 4`: the least charged
  # exhausted: refuse                 # or skip: leave out blocks whose budget is used up
  # precision: single                 # of decoded features: halves what a step reads; sums are exact either way

privacy:
  epsilon: 1.0                        # what this refit may cost: smaller is more private and noisier; no default
  # rho: 0.03                         # instead of epsilon: the same as zero-concentrated privacy
  # pace: 365                         # instead of epsilon: a refit costs the lifetime budget divided by this number
  delta: {delta:<29}# far below 1 / (number of records); no default
  adjacency: replace_one              # or zero_out, add_remove: which data sets are neighbours
  # discover: {{epsilon: 0.5}}          # what `nightfit discover` may cost, which asks for levels of categories; no default
  # trust: local                      # every record is randomised before anything is collected; with method djw or prestige below
  lifetime:                           # the data set's whole budget, over all refits and models, for ever
    epsilon: 8.0
    delta: {lifetime_delta}
    currency: gaussian                # how costs add: gaussian (exact), zcdp, approximate or (trust local) pure
    # per: life                       # or year: renewed every year, and then the guarantee is per year only

model:
  kind: linear                        # or logistic (a label), multinomial (of several), counts, amounts (costs), quantile, mean
  # quantile: 0.9                     # of kind quantile: the share of targets below the prediction
  loss: {loss:<30}# squared, huber, logistic, hinge, gompertz or ramp; {{huber: {{delta: 2.0}}}} sets its parameter
  penalty: {penalty:<27}# {{}}, l1, l2, elastic_net: {{l1: .., l2: ..}}, l1_ball, l2_ball, box: [low, high],
                                      # group_lasso: {{weight: .., groups: [0, 0, 1]}}, sparsity: 5
  intercept: true
  # curvature: 1.6                    # the largest eigenvalue of the mean of x x' of scaled columns, if known: else a named method pays
  # strong_convexity: 0.1             # of the mean loss without its penalty, if it is known: some theorems need it
  # start: previous                   # start at this model's previous private release, which is free, and shrink towards it
                                      # (default: zero)

method: auto                          # or the name of a mean below, or a section:
# method:
#   solver: accelerated_gradient      # or proximal_gradient
#   mean: clipped                     # clipped (l2 norm), coordinate, soft (Catoni), smoothed, threshold or median_of_means
#   schedule: theory                  # the method's theorem chooses what is left out (default: auto, rules of thumb)
#   moment: {{order: 2, bound: 1.0}}    # what a theorem may assume of a gradient: E |g_j|^order <= bound; it only sets bounds
#   diameter: 2.0                     # of the set of weights, and the probability with which the theorem may fail:
#   failure: 0.05
#   scales: public                    # bounds are scales; else (paid) columns' scales, residuals and curvature are asked for
#   groups: 16                        # of a median of means
#   smoothing: 3.0                    # of a smoothed mean
#   bound: 10.0                       # of one record's gradient, of scaled features
#   steps: 100
#   step_size: 0.1
#   averaged: 50                      # the result is the mean of this many last iterates
# method:                             # with privacy.trust local:
#   solver: prestige                  # djw (private sampling) or prestige (with a curriculum)
#   curriculum: masked                # or label_only: then only the label is protected, and data.unit is label
#   sampler: djw                      # or privunit
#   batch: 10                         # reports in a mean
#   epochs: 10
#   cohorts: true                     # one report per record in the whole fit, with the whole epsilon
#   radius: 8.0                       # of the ball of weights
#   steps: convex                     # or strongly_convex, with an l2 penalty
#   iterate: average                  # or last
#   start: 1.5                        # the margin that the first epoch asks for; after epoch k it falls by drop sqrt(k)
#   drop: 1.0

ledger: sqlite:///ledger.db           # SQLAlchemy URL; relative to this file; made once by `nightfit ledger init`
cluster: auto                         # this process if decoded rows have at most 64 MiB, else workers on this machine; or a section:
# cluster:
#   kind: auto                        # or local (always workers), synchronous (never)
#   workers: 2
#   memory: 1GiB                      # of each worker
#   threads: 2                        # of each worker
#   directory: /scratch               # where decoded rows go that do not fit in memory; they are removed at the end
# cluster:
#   address: tcp://scheduler:8786     # of a running Dask scheduler
# cluster:
#   class: dask_jobqueue.SLURMCluster # any Dask cluster class, with its keyword arguments
#   arguments: {{cores: 8, memory: 32GB, n_workers: 4}}
#   workers: 4                        # the run starts when so many have come
#   security: {{ca_file: ca.pem, client_cert: cert.pem, client_key: key.pem}}   # TLS; plain connections are refused
output: releases                      # releases and reports go here, one folder per run
evaluate: {{share: 0.2}}                # set aside for life, never fitted on, and asked how good the fit is; or none
                                      # with by: sex for each level of a category too; checks: false leaves out gaps and drift
# notify: {{command: [./tell.sh]}}      # whom failures and worse nights are told; also webhook, email and prometheus (the guide on alerts)
# mlflow: {{uri: "https://mlflow.example"}}   # private releases are logged there, and its alias current follows promotion
# card: {{use: ..., limits: ..., contact: ...}}   # what a model card says that no file knows: what for, what not for, who answers
promote: when better                  # which release comes into use: when better than the current one, always, or by hand
# sign: {{key: signing.pem}}            # releases are signed with this Ed25519 key, which `nightfit keys new signing.pem` makes
# search:                             # what `nightfit search {name}` tries, each at the cost of one refit; a refit does not look at it
#   epsilon: 4.0                      # the most that the whole search may cost; no default
#   grid: {{model.penalty: [{{l1: 0.1}}, {{l1: 0.01}}], method.steps: [20, 50]}}   # of model.loss, model.penalty, method and method.*
#   score: 0.1                        # what a score costs on top, as a share of its fit
#   bound: 20.0                       # the largest residual that counts in a score (default: what the target's bounds allow)
#   payment: cheaper                  # or all (every fit is charged), repetition (the best of a random number; currency zcdp)
#   repetitions: 8                    # of a repetition, on average (default: twice the settings)
"""


ABOUT = "public facts, never looked up in the data; {kind: number, category, date, boolean or product}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """What a new configuration is about.

    Parameters
    ----------
    columns
        The fields of each column; None is left to be filled in.
    default
        The fields of the columns that are not named, or None.
    notes
        Of a column, a unit or excluded columns: why it is described so.
    """

    path: str
    target: str
    transform: str | None = None
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    default: Mapping[str, Any] | None = None
    exclude: tuple[str, ...] = ()
    unit: str = "record"
    units: int | None = None
    row_id: str | None = None
    blocks: str | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    model: str = "model"
    data_set: str = "data"
    loss: str = "squared"
    labelled: bool = False
    penalty: str = "{}"
    delta: str = "1.0e-6"
    lifetime_delta: str = "1.0e-5"


def hospital_start(path: str) -> Start:
    """The bundled simulated hospital at `path`: what an admission costs, by what is known at discharge, before it is billed.

    What is stated here follows from how it was simulated. So few patients at epsilon 1 tell nothing of most other outcomes: `python -m
    benchmarks demo`.
    """
    return Start(
        path=path,
        target="cost",
        transform="log1p",
        model="cost",
        data_set="hospital",
        columns={
            "stay_days": {"kind": "number", "transform": "log1p"},
            "age": {"kind": "number", "bounds": [0, 110]},
            "emergency": {"kind": "boolean"},
            "prior_visits": {"kind": "number", "transform": "sqrt"},
            "creatinine": {"kind": "number", "transform": "log", "missing": "indicator"},
        },
        unit="patient_id",
        units=5000,
        row_id="visit_id",
    )


def randhie_start(path: str) -> Start:
    """The RAND Health Insurance Experiment at `path`: visits to a physician."""
    indicators = ("idp", "physlm", "hlthg", "hlthf", "hlthp")
    known = {"lncoins": (0, 4.62), "lpi": (0, 8), "fmde": (0, 8.3), "disea": (0, 60), **dict.fromkeys(indicators, (0, 1))}
    features = ("lncoins", "idp", "lpi", "fmde", "physlm", "disea", "hlthg", "hlthf", "hlthp")
    return Start(
        path=path,
        target="mdvis",
        model="visits",
        data_set="randhie",
        columns={name: {"kind": "number", "bounds": list(known[name])} for name in features},
        penalty="{l1: 0.01}",
    )


BUNDLED = {"hospital": hospital_start, "randhie": randhie_start}
"""The start of each bundled data set, from its path."""


def configuration(name: str, start: Start) -> str:
    """The commented configuration for the file `name`."""
    person = start.unit != "record"
    return TEMPLATE.format(
        name=name,
        model=f"{start.model} ",
        data_set=f"{_plain(start.data_set)} ",
        path=f"{_plain(start.path)} ",
        target=f"{_target(start)} ",
        about=f"{'':<28}# {ABOUT}" if start.columns else f" {{}}                         # {ABOUT}, such as",
        columns=_columns(start) if start.columns else "    # age: {kind: number, bounds: [0, 110]}",
        default=_line(
            f"default: {_flow(start.default)}" if start.default else "# default: {kind: number}",
            "for the columns not named; leave it out to use only those named",
        ),
        exclude=_line(
            f"exclude: {_flow(start.exclude)}" if start.exclude else "# exclude: [some_id]",
            start.notes.get("exclude", "columns that are no features"),
        ),
        unit=_line(
            f"unit: {_plain(start.unit)}",
            start.notes.get("unit", "whom privacy protects: one record, or a person with all rows: the column of the id (patient_id)"),
        ),
        units=_line(
            f"units: {start.units or ''}".rstrip() if person else "# units: 20000",
            ("" if start.units or not person else "fill in: ")
            + "the public number of persons, or under add_remove of records; never counted in the data",
        ),
        row_id=_line(f"row_id: {_plain(start.row_id)}" if start.row_id else "# row_id: visit_id", "a column that identifies a record"),
        blocks=_line(
            f"blocks: {start.blocks}" if start.blocks else "# blocks: all",
            "how the ledger divides the data set: all, a hive key such as day, or hash:64 (by unit or row_id);",
        ),
        loss=start.loss,
        penalty=start.penalty,
        delta=start.delta,
        lifetime_delta=start.lifetime_delta,
    )


def _target(start: Start) -> str:
    """The value of data.target."""
    name = _plain(start.target)
    if start.labelled:
        return f"{{column: {name}, positive: }}"
    return name if start.transform is None else f"{{column: {name}, transform: {start.transform}}}"


def _columns(start: Start) -> str:
    """The lines of data.columns. What is to be filled in has a line of its own, with the reason."""
    lines = []
    for name, fields in start.columns.items():
        note = start.notes.get(name, "")
        if None not in fields.values():
            lines.append("  " + _line(f"  {_plain(name)}: {_flow(fields)}", note))
            continue
        lines.append(f"    {_plain(name)}:")
        for key, value in fields.items():
            empty = value is None
            lines.append("  " + _line(f"    {key}:" if empty else f"    {key}: {_plain(value)}", f"fill in: {note}" if empty else ""))
    return "\n".join(lines)


def _line(written: str, comment: str) -> str:
    """A line of the data section behind its indentation of two, with a comment at column 38 if there is room."""
    return f"{written:<35} # {comment}" if comment else written


def _flow(value: Any) -> str:
    plain = dict(value) if isinstance(value, Mapping) else list(value)
    return yaml.safe_dump(plain, default_flow_style=True, width=math.inf, sort_keys=False).strip()


def _plain(text: str) -> str:
    return yaml.safe_dump([text], default_flow_style=True, width=math.inf).strip()[1:-1]
