"""The sections of refit.yaml, each validated by itself.

- `data`: `Data`; `columns`: a section for each kind of column; `target`: the column to be predicted; `replaced`: keys that are refused,
  with their new form
- `privacy`: `Privacy`, `Lifetime`
- `model`: `Model`
- `method`: `MethodSection`, `MomentSection`, `LocalMethodSection`; `MethodChoice` is one of them or a name
- `cluster`: `LocalCluster`, `RemoteCluster`, `NamedCluster`, `Security`; `ClusterChoice` is one of them
- `search`: `SearchSection`, `Unsafe`
- `nights`: `EvaluateSection`; `EvaluateChoice` is it or `none`; `Promote`
- `card`: `Card`
- `mlflow`: `Mlflow`
- `notify`: `Notify`
- `secret`: `Secret`
- `sign`: `Sign`
- `base`: `Section`, what all of them share
"""

from nightfit.config.sections.base import Name, Place, Section
from nightfit.config.sections.card import Card
from nightfit.config.sections.cluster import ClusterChoice, LocalCluster, NamedCluster, RemoteCluster, Security
from nightfit.config.sections.columns import TAGS
from nightfit.config.sections.data import Data
from nightfit.config.sections.method import LOCAL_SOLVERS, LocalMethodSection, MethodChoice, MethodSection, MomentSection
from nightfit.config.sections.mlflow import Mlflow
from nightfit.config.sections.model import Model
from nightfit.config.sections.nights import EvaluateChoice, EvaluateSection, Promote
from nightfit.config.sections.notify import Notify
from nightfit.config.sections.privacy import Lifetime, Privacy
from nightfit.config.sections.search import SearchSection, Unsafe
from nightfit.config.sections.sign import Sign
from nightfit.config.sections.target import TargetSection

__all__ = [
    "LOCAL_SOLVERS",
    "TAGS",
    "Card",
    "ClusterChoice",
    "Data",
    "EvaluateChoice",
    "EvaluateSection",
    "Lifetime",
    "LocalCluster",
    "LocalMethodSection",
    "MethodChoice",
    "MethodSection",
    "Mlflow",
    "Model",
    "MomentSection",
    "Name",
    "NamedCluster",
    "Notify",
    "Place",
    "Privacy",
    "Promote",
    "RemoteCluster",
    "SearchSection",
    "Section",
    "Security",
    "Sign",
    "TargetSection",
    "Unsafe",
]
