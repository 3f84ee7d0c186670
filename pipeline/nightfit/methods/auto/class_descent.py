"""Newton steps towards the log-odds of several classes, all by one gradient a step. Imports class_margins, descent and below.

Each step asks for one matrix: the outer products of residuals C'(e_y - p) and rows, bounded together. The curvature at equal slopes is
S (x) H, with S = C'(diag p - p p')C of the paid shares p and H the second moment of rows. In the eigenvectors of S the classes come apart:
contrast j has the curvature s_j H, and its column of the matrix is a gradient with the same noise as every other. So each contrast takes
the steps, the averages and the shrinkage of one margin, and k classes cost what two do, but for the noise of k - 1 estimates.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from nightfit.methods.auto.class_intervals import class_intervals
from nightfit.methods.auto.class_margins import with_shares
from nightfit.methods.auto.complete_rows import label_share
from nightfit.methods.auto.descent import AskedGradient, Descent
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.methods.auto.weight_maps import WeightMaps
from nightfit.methods.auto.whitened_coordinates import WhitenedCoordinates
from nightfit.methods.procedure import Outcome, PaidShare, Progress
from nightfit.privacy.gate import Gate
from nightfit.problem.losses.softmax import Softmax
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True)
class AskedMatrix:
    """A paid gradient of all contrasts: at which weights, its value, and the standard deviation of its noise."""

    at: Array
    gradient: Array
    deviation: float


@dataclass(frozen=True, kw_only=True)
class ClassDescent:
    """A fit of several classes. Weights V have a row for each used direction and a column for each of the loss's contrasts."""

    plan: QueryPlan
    gate: Gate
    coordinates: WhitenedCoordinates

    @property
    def loss(self) -> Softmax:
        return cast(Softmax, self.plan.loss)

    def run(self, show: Callable[[Progress], None]) -> Outcome:
        """Ask for the shares of the classes, and take all steps."""
        plan, here, residuals = self.plan, self, self.residuals()
        shares = self.believed(residuals)
        V = np.zeros((self.plan.columns, self.loss.outputs))
        V[list(self.coordinates.free)] = self.loss.contrasts.T @ np.log(shares)
        variances, turn = np.linalg.eigh(covariance(self.loss, shares))
        asked: list[AskedMatrix] = []
        for step in range(plan.steps):
            here, answer = here.ask(f"gradient {step + 1}", V)
            asked.append(answer)
            before, used = V, asked[plan.burn_in :] or asked[-1:]
            V, noise = here.stepped(used, variances, turn, shrinks=plan.tuning.shrinks and step >= plan.first_shrunk_step)
            moved = float(np.linalg.norm(here.released(V) - here.released(before)))
            show(Progress(step=step + 1, steps=plan.steps, moved=moved, noise=noise))
        if self.coordinates.free and "target" in plan.shares:
            V = with_shares(self.loss, here.coordinates.complete_moment, V, self.coordinates.free[0], shares)
        return replace(here.outcome(V, asked[plan.burn_in :], variances, turn), labels=self.paid_shares(residuals))

    def paid_shares(self, residuals: tuple[PaidShare, ...]) -> tuple[PaidShare, ...]:
        """The share of each class among the units that count."""
        at, usual = self.coordinates, 1 / self.loss.classes
        return tuple(label_share(usual, one.share, one.deviation, at.complete, at.used_share) for one in residuals)

    def residuals(self) -> tuple[PaidShare, ...]:
        """How much more often than equally each class is seen, as it was answered; nothing where it is not asked."""
        if "target" not in self.plan.shares:
            return ()
        classes, contrasts = self.loss.classes, self.loss.contrasts
        nothing, largest = np.zeros((self.plan.columns, self.loss.outputs)), np.sqrt(1 - 1 / classes)
        answer = self.plan.ask(self.gate, "target", rows=self.coordinates.rows, weights=nothing, clip=largest)
        residuals = contrasts @ answer / self.coordinates.complete
        noise = self.plan.deviation("target", clip=largest) * np.linalg.norm(contrasts, axis=1) / self.coordinates.complete
        return tuple(PaidShare(residual, deviation) for residual, deviation in zip(residuals.tolist(), noise.tolist(), strict=True))

    def believed(self, residuals: tuple[PaidShare, ...]) -> Array:
        """Shares that are at least one record's and sum to one; equal shares where none were asked."""
        above = np.array([one.share for one in residuals] or np.zeros(self.loss.classes))
        found = np.maximum(1 / self.loss.classes + above, 1 / self.plan.units)
        shares: Array = found / found.sum()
        return shares

    def ask(self, label: str, V: Array) -> tuple["ClassDescent", AskedMatrix]:
        """The gradient of all contrasts at these weights, and the descent with the second moment that came with it."""
        at, bounds = self.coordinates, {"clip": self.plan.clip_of_labels, "cap": self.coordinates.cap}
        paid = self.plan.gradient(self.gate, label, rows=at.rows, rotation=at.rotation, loss=self.loss, weights=V, **bounds)
        assert paid.moment is not None
        here = replace(self, coordinates=at.with_moment(paid.moment, paid.moment_noise))
        return here, AskedMatrix(at=V, gradient=paid.mean, deviation=paid.deviation)

    def stepped(self, asked: list[AskedMatrix], variances: Array, turn: Array, *, shrinks: bool) -> tuple[Array, float]:
        """Where the averaged Newton steps lead, contrast by contrast, and the largest standard deviation of their noise."""
        single = Descent(plan=self.plan, gate=self.gate, coordinates=self.coordinates, start=np.zeros(len(asked[0].at)))
        columns, noises = [], []
        for variance, contrast in zip(variances, turn.T, strict=True):
            steps = [
                AskedGradient(
                    at=one.at @ contrast, gradient=one.gradient @ contrast, deviation=one.deviation, clip=1.0, slope=float(variance)
                )
                for one in asked
            ]
            v, noise = single.averaged(steps)
            columns.append(single.shrunk(v, noise, 1 / (self.plan.units * float(variance))) if shrinks else v)
            noises.append(noise)
        return np.column_stack(columns) @ turn.T, max(noises)

    def outcome(self, V: Array, asked: list[AskedMatrix], variances: Array, turn: Array) -> Outcome:
        """The released weights: a column of scores for each class, which sum to zero."""
        maps, turned = self.maps, V @ turn
        fitted = np.column_stack([maps.penalised(turned[:, j], float(variance)) for j, variance in enumerate(variances)])
        return Outcome(
            weights=maps.in_columns(fitted @ turn.T @ self.loss.contrasts.T),
            path=[],
            preprocessing=maps.preprocessing(),
            used=self.coordinates.used_share,
            class_intervals=class_intervals(self.plan, self.coordinates, self.loss, [(a.at, a.gradient, a.deviation) for a in asked], maps),
        )

    @property
    def maps(self) -> WeightMaps:
        return WeightMaps(plan=self.plan, coordinates=self.coordinates)

    def released(self, V: Array) -> Array:
        """The weights of the release's columns, by contrast."""
        return np.column_stack([self.maps.released(column) for column in V.T])


def covariance(loss: Softmax, shares: Array) -> Array:
    """S = C'(diag p - p p')C: the covariance of a label's contrasts."""
    C = loss.contrasts
    S: Array = C.T @ (np.diag(shares) - np.outer(shares, shares)) @ C
    return S
