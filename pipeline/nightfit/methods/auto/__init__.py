"""The automatic method: questions, the mathematics between them, and the procedure that asks them. Imports gate and rooms below.

`rows`, `histogram`, `second_moment`, `gradient`, `calibration`, `tails` and `narrow` are what may be asked (they import what query.py
imports); `quantiles`, `whitening`, `thresholds`, `shrinkage`, `mixture` and `metric` are d-sized mathematics on paid answers and import
numpy and scipy only (`mixture` numba too); `questions` fixes what is asked and what it costs, `frame` and `descent` ask it, `procedure`
is the whole and `screening` what comes before it where columns are many.
"""
