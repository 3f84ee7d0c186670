"""Every constant of `auto`, with its meaning, its unit and the reason for its value. Imports queries.

| module | what its constants decide |
|---|---|
| `budget` | which queries are asked, their shares of the budget, the number of steps, clamps |
| `histograms` | which bins of a noisy histogram are real, and what noise may hide |
| `coordinates` | scales, centres, whitening, curvature |
| `steps` | clips of residuals, how far a step goes, how steps are averaged |
| `labels` | what differs for classification |
| `level` | the calibration of level and scale |
| `shrinkage` | how much of an estimate is taken for noise |
| `intervals` | confidence intervals, and the error that a plan predicts |
| `screening` | which columns are fitted where there are too many |
| `named` | what named methods pay for |
| `numerical` | guards and tolerances |

The shares and switches that an ablation may change are the fields of `Tuning` (`nightfit.methods.auto.tuning`), documented in the same
form.

The text below a constant ends with `Reason (kind): ...`. The kinds:

- `derived`: it follows from a formula or another constant.
- `experiment`: a section of benchmarks/EXPERIMENTS.md compares it, or the part that it belongs to, with an alternative.
- `numerical`: it guards arithmetic; another value near it gives the same fit.
- `unsupported`: no recorded experiment compares it with another value.

`python -m nightfit.methods.auto.constants` prints the table, `... unsupported` those of one kind.
"""
