"""A simulated hospital: patients who return over days, as an export has them. Imports numpy and pyarrow.

The simulator was fixed before any model was fitted on it; its numbers are round and chosen to look like a general hospital.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nightfit.types import Array

VISITS_PER_PATIENT = 4
SEXES, SEX_SHARES = ("F", "M", "X"), (0.51, 0.48, 0.01)
# chapters of the ICD-10 by their first code, with their share among admissions, what they add to log stay, and their odds of death
CHAPTERS = {
    "A00": (0.03, 0.2, 0.5), "C00": (0.09, 0.4, 1.2), "D50": (0.02, 0.0, 0.1), "E00": (0.04, 0.1, 0.1), "F00": (0.06, 0.9, -1.5),
    "G00": (0.04, 0.2, 0.2), "H00": (0.03, -0.8, -2.0), "I00": (0.16, 0.2, 0.8), "J00": (0.08, 0.2, 0.9), "K00": (0.12, 0.0, 0.0),
    "L00": (0.02, 0.1, -0.8), "M00": (0.10, 0.0, -1.2), "N00": (0.06, -0.1, 0.0), "O00": (0.06, -0.3, -4.0), "R00": (0.04, -0.4, -0.3),
    "S00": (0.05, 0.1, 0.0),
}  # fmt: skip
WARDS = 24
CLASSES = ("home", "transferred", "died")
SCHEMA = pa.schema(
    {
        "patient_id": pa.string(),
        "visit_id": pa.int64(),
        "admitted": pa.timestamp("us", tz="UTC"),
        "sex": pa.dictionary(pa.int32(), pa.string()),
        "age": pa.float64(),
        "diagnosis": pa.string(),
        "ward": pa.string(),
        "emergency": pa.bool_(),
        "prior_visits": pa.int32(),
        "systolic": pa.float64(),
        "creatinine": pa.float64(),
        "bmi": pa.float64(),
        "stay_days": pa.float64(),
        "cost": pa.decimal128(12, 2),
        "visits_next_year": pa.int32(),
        "readmitted": pa.bool_(),
        "outcome": pa.string(),
    }
)


@dataclass(frozen=True, kw_only=True)
class Hospital:
    """`rows` admissions over `days` days from `start`, of rows / 4 patients; a hive folder `day=YYYY-MM-DD` each.

    A patient has a sex, a year of birth, a body mass index and a frailty u, standard normal, that no column tells; frail patients come
    more often, in proportion to exp(u / 2). Missing values come by three mechanisms: `bmi` at random (one in ten), `creatinine` less
    often where the patient came by appointment and is not frail (so the rest is not a random sample), `age` rarely (one in fifty).
    With c the contribution of the diagnosis and x = 0.3 u + 0.015 (age - 60) + 0.5 emergency + 0.4 log(creatinine):

        stay_days        = exp(0.6 + 0.6 x + c + 0.9 e),            e ~ t(5)
        cost             = 900 (1 + stay_days)^0.9 exp(0.3 x + 0.5 e),   e ~ N(0, 1)
        visits_next_year ~ Poisson(exp(-0.3 + 0.7 x + 0.15 sqrt(prior_visits)) g),   g ~ Gamma(2, 1 / 2)
        readmitted       ~ Bernoulli(sigmoid(-1.9 + 0.9 x + 0.1 sqrt(prior_visits)))
        outcome          ~ softmax of home 0, transferred -2.2 + 0.5 x + 0.5 c, died -3.6 + 1.1 x + their chapter's odds

    With `drift`, the intercept of readmissions rises by that much over all days. Everything follows from the fields: any day can be made
    alone. The bits may change with numpy's version.
    """

    rows: int
    days: int = 30
    start: date = date(2026, 1, 1)
    drift: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.days < 1 or self.rows < max(self.days, VISITS_PER_PATIENT):
            raise ValueError(f"{self.rows} rows over {self.days} days: give each day at least one admission")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed is {self.seed}; use an integer from 0 to 2**63 - 1")

    @property
    def patients(self) -> int:
        return self.rows // VISITS_PER_PATIENT

    @cached_property
    def people(self) -> dict[str, Array]:
        """What stays the same for a patient."""
        rng = np.random.default_rng([self.seed, 1])
        frailty = rng.standard_normal(self.patients)
        coming = np.cumsum(np.exp(frailty / 2))
        return {
            "frailty": frailty,
            "coming": coming / coming[-1],
            "sex": rng.choice(len(SEXES), self.patients, p=SEX_SHARES),
            "born": 1935 + 75 * rng.beta(1.2, 2.0, self.patients),
            "bmi": np.exp(rng.normal(math.log(26.5), 0.18, self.patients)),
        }

    def write(self, folder: Path) -> list[Path]:
        """One file per day, which appears under its name when it is whole."""
        return [self._written(folder, day, table) for day, table in self.tables()]

    def tables(self) -> Iterator[tuple[date, Any]]:
        """Each day's admissions; patients' earlier visits are counted on the way."""
        earlier = np.zeros(self.patients, dtype=np.int64)
        first = 0
        for number in range(self.days):
            size = self.rows // self.days + (number < self.rows % self.days)
            day = self.start + timedelta(days=number)
            yield day, self._day(number, day, size, first, earlier)
            first += size

    def _written(self, folder: Path, day: date, table: Any) -> Path:
        path = folder / f"day={day.isoformat()}" / "part-0.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(".part-0.partial")
        pq.write_table(
            table, partial, compression="zstd", compression_level=9, write_statistics=False, write_page_checksum=True
        )  # statistics would publish the extremes
        partial.replace(path)
        return path

    def _day(self, number: int, day: date, size: int, first: int, earlier: Any) -> Any:
        rng, people = np.random.default_rng([self.seed, 2, number]), self.people
        who = np.searchsorted(people["coming"], rng.uniform(size=size))
        frailty, age = people["frailty"][who], day.year - people["born"][who]
        prior = earlier[who].copy()
        np.add.at(earlier, who, 1)
        emergency = rng.uniform(size=size) < _sigmoid(-0.6 + 0.5 * frailty + 0.01 * (age - 50))
        chapter = rng.choice(len(CHAPTERS), size, p=np.array([share for share, _, _ in CHAPTERS.values()]))
        longer, deadly = (np.array([row[place] for row in CHAPTERS.values()])[chapter] for place in (1, 2))
        creatinine = np.exp(-0.1 + 0.004 * (age - 50) + 0.15 * frailty + 0.3 * rng.standard_t(6, size))
        x = 0.3 * frailty + 0.015 * (age - 60) + 0.5 * emergency + 0.4 * np.log(creatinine)
        stay = np.exp(np.clip(0.6 + 0.6 * x + longer + 0.9 * rng.standard_t(5, size), -3.0, 7.0))
        cost = 900 * (1 + stay) ** 0.9 * np.exp(0.3 * x + 0.5 * rng.standard_normal(size))
        habit = np.sqrt(prior)
        visits = rng.poisson(np.exp(np.minimum(-0.3 + 0.7 * x + 0.15 * habit, 4.0)) * rng.gamma(2.0, 0.5, size))
        drifted = self.drift * number / max(1, self.days - 1)
        again = rng.uniform(size=size) < _sigmoid(-1.9 + drifted + 0.9 * x + 0.1 * habit)
        odds = np.exp(np.column_stack([np.zeros(size), -2.2 + 0.5 * x + 0.5 * longer, -3.6 + 1.1 * x + deadly]))
        ending = (rng.uniform(size=size)[:, None] > np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1)[:, :-1]).sum(axis=1)
        hour = np.where(emergency, rng.uniform(0, 24, size), np.clip(rng.normal(10, 2, size), 0, 23.99))
        instants = np.datetime64(day, "us").astype(np.int64) + (hour * 60).astype(np.int64) * 60_000_000  # to the minute
        columns = {
            "patient_id": [f"P{patient:08d}" for patient in who],
            "visit_id": np.arange(first, first + size),
            "admitted": pa.array(instants).cast(pa.timestamp("us", tz="UTC")),
            "sex": pa.DictionaryArray.from_arrays(pa.array(people["sex"][who].astype(np.int32)), pa.array(SEXES)),
            "age": _with_nulls(np.floor(age), rng.uniform(size=size) < 0.02),
            "diagnosis": np.array(list(CHAPTERS))[chapter],
            "ward": [f"W{ward:02d}" for ward in (chapter + rng.geometric(0.4, size) - 1) % WARDS],
            "emergency": emergency,
            "prior_visits": prior.astype(np.int32),
            "systolic": np.round(rng.normal(125 + 0.3 * (age - 50) + 6 * frailty, 15)),
            "creatinine": _with_nulls(np.round(creatinine, 2), rng.uniform(size=size) > _sigmoid(0.4 + 1.2 * emergency + 0.6 * frailty)),
            "bmi": _with_nulls(np.round(people["bmi"][who], 1), rng.uniform(size=size) < 0.1),
            "stay_days": np.round(stay, 2),
            "cost": pa.array([Decimal(f"{amount:.2f}") for amount in cost], type=pa.decimal128(12, 2)),
            "visits_next_year": visits.astype(np.int32),
            "readmitted": again,
            "outcome": np.array(CLASSES)[ending],
        }
        return pa.table(columns, schema=SCHEMA)


def _sigmoid(z: Array) -> Array:
    return 1 / (1 + np.exp(-z))


def _with_nulls(values: Any, missing: Any) -> Any:
    return pa.array(values, mask=missing)
