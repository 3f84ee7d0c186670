"""What a released model predicts for the rows of a block that another preprocessing made. Imports records and below."""

from dataclasses import dataclass

import numpy as np

from nightfit.numerics.exact import margins
from nightfit.problem.links import Link
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True)
class Predictor:
    """Margins and predictions of fitted weights on blocks with other bounds, in the (scaled) target's units of those blocks.

    x' = clip((x - centre) / scale, -reach, reach) for each feature of the block, or `absent` where it has no value, and z = x' . weights.
    A prediction is offset + factor inverse(z).

    Parameters
    ----------
    weights : Array
        Of the bounded features, the intercept's last; a matrix with a column for each class where there are several.
    centre, scale, reach, absent : Array
        Of each feature, in units of the block.
    link : Link
        From margins to predictions.
    offset, factor : float
        From the fit's units of the target to the block's.
    """

    weights: Array
    centre: Array
    scale: Array
    reach: Array
    absent: Array
    link: Link
    offset: float = 0.0
    factor: float = 1.0

    @classmethod
    def of(cls, weights: Array, link: Link, fitted: Preprocessing, shape: Preprocessing) -> "Predictor":
        """The predictor of weights that a fit made for `fitted`, on blocks made by `shape`.

        Raises
        ------
        ValueError
            If the two do not have the same features and target.
        """
        if (fitted.features, fitted.intercept, fitted.target) != (shape.features, shape.intercept, shape.target):
            raise ValueError("a model is evaluated on records with its own features and target")
        count = len(shape.features)
        own, given = (np.array([of.centre, of.scale]).reshape(2, count) for of in (fitted, shape))
        return cls(
            weights=np.array(weights, dtype=np.float64),
            centre=(own[0] - given[0]) / given[1],
            scale=own[1] / given[1],
            reach=np.array(fitted.reach or (1.0,) * count),
            absent=np.array(fitted.absent or (0.0,) * count),
            link=link,
            offset=(fitted.target_centre - shape.target_centre) / shape.target_scale,
            factor=fitted.target_scale / shape.target_scale,
        )

    @property
    def middle(self) -> float:
        """The margin of a record all of whose features lie at their centres."""
        return float(self.weights[-1]) if len(self.weights) > len(self.centre) else 0.0

    def margin(self, X: Array) -> Array:
        """z of each row of a block; where there are several classes, a column for each."""
        bounded = np.array(X, dtype=np.float64)
        inner = bounded[:, : len(self.centre)]
        missing = np.isnan(inner)
        with np.errstate(all="ignore"):
            np.clip((inner - self.centre) / self.scale, -self.reach, self.reach, out=inner)
        np.copyto(inner, self.absent, where=missing)
        found = [_products(bounded, weights) for weights in np.atleast_2d(self.weights.T)]
        return found[0] if self.weights.ndim == 1 else np.column_stack(found)

    def __call__(self, X: Array) -> Array:
        """The prediction of each row of a block."""
        return self.predicted(self.margin(X))

    def predicted(self, margin: Array) -> Array:
        """The prediction at each margin."""
        with np.errstate(all="ignore"):
            found: Array = self.offset + self.factor * self.link.inverse(margin)
        return found


def _products(rows: Array, weights: Array) -> Array:
    """rows . weights, each row for itself."""
    products, squares = np.empty(len(rows)), np.empty(len(rows))
    margins(rows, weights, products, squares)
    return products
