"""A release as the files of an MLflow model, which loads where numpy, pandas and scikit-learn are. Imports exports of the release."""

from nightfit.release import Release
from nightfit.release.export import Formula
from nightfit.release.export.json import Json
from nightfit.release.export.sklearn import Sklearn

LOADER = '''"""What `mlflow.pyfunc.load_model` calls; the model beside it is text that can be read."""


def _load_pyfunc(path):
    from nightfit_released_model import pipeline

    return pipeline
'''
MLMODEL = """\
flavors:
  python_function:
    code: code
    env:
      virtualenv: python_env.yaml
    loader_module: nightfit_released_loader
    python_version: {python}
"""
ENVIRONMENT = "python: {python}\ndependencies:\n- -r requirements.txt\n"
REQUIREMENTS = "mlflow\nnumpy\npandas\nscikit-learn\n"


def files_of(release: Release) -> dict[str, bytes]:
    """Path in the model's folder and content of each file.

    Raises
    ------
    NightfitError
        If the release holds no model that can be exported.
    """
    formula, python = Formula.of(release), release.content["versions"]["python"]
    return {
        "MLmodel": MLMODEL.format(python=python).encode(),
        "python_env.yaml": ENVIRONMENT.format(python=python).encode(),
        "requirements.txt": REQUIREMENTS.encode(),
        "code/nightfit_released_loader.py": LOADER.encode(),
        "code/nightfit_released_model.py": Sklearn().written(formula),
        "formula.json": Json().written(formula),
    }
