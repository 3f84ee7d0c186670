"""Experiments of the five papers, re-run by this pipeline with true budgets: one file per paper. Imports packages below; no Prefect.

- `experiment`: figures, tables, verdicts and the page that holds them, as plain data
- `fits`: one curve of a figure, by a configuration that a user can write
- `page`: the page as self-contained HTML
- `wang2020`, `han2018`, `tao2022`, `kamath2021`, `xie2023`: settings, curves and verdicts
- `adult`, `blogfeedback`: real data over iterations, where they are given
- `prestige`: Table 3 of Han et al. (2018), number by number

Noise is seeded, so that a page can be made again. Errors are on data in the clear, beside fits that are not private: experiments on
public or made-up data, never releases.
"""

import importlib
from pathlib import Path
from typing import Any

from nightfit_flows.reproduce.experiment import Page, Scale, Show

PAPERS = ("wang2020", "han2018", "tao2022", "kamath2021", "xie2023")


def reproduce(paper: str, *, fast: bool = False, data: Path | None = None, show: Show = lambda _: None) -> Page:
    """Re-run a paper's experiments.

    Parameters
    ----------
    paper : str
        One of PAPERS.
    fast : bool
        Fewer records, repetitions and values of each quantity.
    data : path-like, optional
        A folder with the paper's real data as Parquet, under the names that its page tells; public data only.
    show : callable
        Called with what is fitted next.
    """
    module: Any = importlib.import_module(f"nightfit_flows.reproduce.{paper}")
    page: Page = module.page(Scale(fast=fast), data, show)
    return page
