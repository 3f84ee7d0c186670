"""What differs for classification."""

from typing import Final

# clips and steps

LABEL_CLIP_NOISE: Final = 0.13
"""The k at which residuals of labels are clipped at a half. Unit: k. Reason (experiment): "Clips of labels"."""

LABEL_CLIP_EXPONENT: Final = 1 / 7
"""The clip is (LABEL_CLIP_NOISE / k)^this / 2 where noise is smaller. Unit: exponent. Reason (experiment): "Clips of labels": between a
half at k = 0.13 and one where there is hardly any noise."""

LEAST_LABEL_CLIP: Final = 0.5
"""Smallest clip of residuals of labels. Unit: residual of a label. Reason (experiment): "Clips of labels" compares it with 0.3 and 1; it
cuts only what the model held to be the less likely label."""

FIRST_LABEL_RESIDUAL: Final = 0.5
"""The residual of a label without any weights. Unit: residual of a label. Reason (derived): |y - 1/2|."""

LOGISTIC_CURVATURE: Final = 0.25
"""Largest curvature of the logistic loss, taken where nothing is known of residuals. Unit: per squared margin. Reason (derived): p (1 - p)
<= 1/4."""

HINGE_CURVATURE: Final = 0.5
"""Curvature of the hinge loss: the density of margins where it bends. Unit: per margin. Reason (derived): a half, if margins spread evenly
over [0, 2] or [-1, 1]."""

LABEL_CURVATURE_FACTOR: Final = 1.5
"""The curvature used is this times E p (1 - p), plus LABEL_CURVATURE_OFFSET, at most LOGISTIC_CURVATURE. Unit: ratio. Reason (unsupported):
a little more than its own, so that steps do not go too far."""

LABEL_CURVATURE_OFFSET: Final = 0.02
"""See LABEL_CURVATURE_FACTOR. Unit: per squared margin. Reason (unsupported): a rare label has nearly no curvature."""

LABEL_STEPS_NOISE: Final = 0.8
"""Labels take this over k steps. Unit: k. Reason (unsupported): their curvature changes on the way, so they need more steps, and little
noise allows them."""

LEAST_LABEL_STEPS: Final = 3
"""Fewest steps of labels. Unit: steps. Reason (unsupported): one that approaches and two to average."""

MOST_LABEL_STEPS: Final = 10
"""Most steps of labels. Unit: steps. Reason (unsupported): Newton steps have converged by then."""

MOST_BURNED: Final = 3
"""Most first steps of labels that are not averaged: half of all, up to this. Unit: steps. Reason (experiment): "Averaging of steps"
compares it with averaging all."""

MOST_MARGIN_GROWTH: Final = 4.0
"""The last step of labels is not taken if it makes the variance of margins more than so many times as large. Unit: ratio. Reason
(experiment): "Wide margins": a step of the right size made it 2.6 times as large, one that left the model 10 and more."""

# normal margins

MARGIN_NODES: Final = 60
"""Nodes of the Gauss-Hermite quadrature over normal margins. Unit: nodes. Reason (numerical): exact for polynomials of degree 119."""

FARTHEST_INTERCEPT: Final = 100.0
"""The intercept of a given share of labels is looked for up to here. Unit: log-odds. Reason (numerical): beyond it the share is below
e^-100."""

BISECTIONS: Final = 60
"""Halvings of that search. Unit: iterations. Reason (numerical): 200 / 2^60 is below double precision."""

LARGEST_LOGIT: Final = 500.0
"""Margins are cut here before exp. Unit: log-odds. Reason (numerical): exp(500) does not overflow."""

MOST_EIGENVALUE_RATIO: Final = 10.0
"""The slope of the clipped logistic gradient across the weights is at most so many times its smallest eigenvalue. Unit: ratio. Reason
(unsupported): normal margins are an approximation, which must not make it singular."""

CLASS_POINTS: Final = 4096
"""Normal points over which the probabilities of classes are averaged. Unit: points. Reason (derived): their mean is known within
1 / sqrt(4096) = 1.6% of a standard deviation, far less than the noise of a fit."""

CLASS_ROUNDS: Final = 60
"""Newton steps towards the intercepts at which classes have their shares. Unit: steps. Reason (derived): each moves scores by at most one,
and the last ones double the digits."""

LEAST_CLASS_CURVATURE: Final = 1e-9
"""Added to a curvature before it is inverted. Unit: variance of a label. Reason (derived): far below that of a class of one record in a
hundred million."""

MOST_OF_LABEL_SPREAD: Final = 1.1
"""The curvature of labels is at most this many times p (1 - p) of the paid share p. Unit: ratio. Reason (derived): the mean of p (1 - p)
over records is at most that of the mean p (Jensen), and a tenth more keeps steps from going too far."""

SPREAD_OF_RARE_LABELS: Final = 0.15
"""Below this p (1 - p), of a share of 18%, clips of residuals open towards one. Unit: variance of a label. Reason (unsupported): a narrow
clip falls on nearly all records of a rare label."""
