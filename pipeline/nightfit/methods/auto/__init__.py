"""`auto`, the default engine: private scales, whitening and Newton steps, every bound read from a paid answer. Imports privacy and below.

In the order in which a fit runs through them:

| module | what it holds |
|---|---|
| `procedure` | `AutoFit`: explains, predicts and runs a fit |
| `screening`, `screening_round` | `ScreenedAutoFit`: which columns are fitted where there are too many |
| `public_facts`, `shares` | what is known in advance, and each query's share of the budget |
| `query_templates`, `query_plan` | the queries, their noise and events, and how they are asked |
| `column_scales` | centre, scale and clamp of every column |
| `whitened_coordinates`, `whitening` | the second moment, and coordinates in which rows are isotropic |
| `descent`, `residuals` | the target's mean and the steps |
| `class_descent`, `class_margins`, `class_intervals` | several classes: all by one gradient a step |
| `thresholds`, `shrinkage`, `adaptive_shrinkage` | where residuals are clipped, and how slopes are shrunk |
| `level_and_scale`, `calibration` | level and scale of predictions, with a wide clip |
| `reach` | where columns are clamped when the model is used |
| `finish`, `weight_maps`, `quadratic_prox` | from the steps to released weights |
| `uncertainty`, `logistic_margins` | confidence intervals |
| `prediction` | the error that a plan predicts |
| `previous_weights` | a start at a previous release |
| `noisy_histograms`, `distributions` | what a noisy histogram says |
| `constants`, `tuning` | every number, with its reason |

The sensitivities of all queries are proved in `nightfit.queries`. docs/explanation/auto.md is the specification.
"""
