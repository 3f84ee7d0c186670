"""A model card: use, data, guarantee, assumptions, metrics by night; as Markdown and as HTML. Imports history and release.

It is made of the configuration, the ledger and private releases that the ledger vouches for: nothing in it is unpaid.
"""

from dataclasses import dataclass
from html import escape

from nightfit.config import Config
from nightfit.nightly.history import History, PastNight
from nightfit.planning.outcome_words import outcome_in_words
from nightfit.release import Release
from nightfit.release.html import table
from nightfit.release.metrics import metric_name
from nightfit.release.words import plain

UNSAID = "Nobody has said: `card:` in the configuration takes `use`, `limits` and `contact`."
SHOWN = 30  # nights in the table of metrics: a month
Rows = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A section: paragraphs, and a table whose first row is its head."""

    title: str
    paragraphs: tuple[str, ...] = ()
    rows: Rows = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCard:
    """The card of a model."""

    model: str
    parts: tuple[Part, ...]

    def markdown(self) -> str:
        """As Markdown."""
        lines = [f"# {plain(self.model)}", ""]
        for part in self.parts:
            lines += [f"## {part.title}", "", *(line for text in part.paragraphs for line in (plain(text), ""))]
            if part.rows:
                head, *rows = ["| " + " | ".join(map(plain, row)) + " |" for row in part.rows]
                lines += [head, "|" + " --- |" * len(part.rows[0]), *rows, ""]
        return "\n".join(lines)

    def html(self) -> str:
        """As HTML, without its name."""
        return "".join(
            f"<h3>{escape(part.title)}</h3>"
            + "".join(f"<p>{escape(text)}</p>" for text in part.paragraphs)
            + (table(part.rows[0], part.rows[1:]) if part.rows else "")
            for part in self.parts
        )


def card_of(config: Config, history: History) -> ModelCard:
    """The card of a configuration's model, about the release that is in use, or else the newest private one."""
    shown = history.current if history.current is not None and history.current.release is not None else None
    shown = shown or next((night for night in reversed(history.nights) if night.release is not None), None)
    release = None if shown is None else shown.release
    parts = [
        _use(config),
        *([] if release is None or shown is None else [_model(release, shown), _data(config, release), _privacy(release)]),
    ]
    return ModelCard(model=config.name, parts=(*parts, _budget(history), *_metrics(history)))


def _use(config: Config) -> Part:
    said = config.card
    if said is None:
        return Part(title="Intended use", paragraphs=(UNSAID,))
    limits, contact = f"Limits: {said.limits}" if said.limits else "", f"Contact: {said.contact}" if said.contact else ""
    return Part(title="Intended use", paragraphs=tuple(text for text in (said.use or UNSAID, limits, contact) if text))


def _model(release: Release, night: PastNight) -> Part:
    loss = str(release.content["plan"]["loss"]["kind"]).replace("_", " ")
    state = "in use" if night.in_use else "the newest; none is in use"
    count = len(release.content["features"])
    what = "means of columns" if release.of_columns else f"a linear model with the {loss} loss and the link {release.link.name}"
    target = release.content["preprocessing"]["target"]["name"]
    of = "" if target is None else f", of {target}"
    run = f"Run {release.run_id} of {night.time[:10]} ({state}): {what}{of}, {count:,} features."
    predicted = () if release.of_columns else (f"Predicted: {outcome_in_words(release.preprocessing, release.content['plan']['loss'])}.",)
    return Part(title="Model", paragraphs=(run, *predicted))


def _data(config: Config, release: Release) -> Part:
    plan, window = release.content["plan"], config.data.window
    words = "all files" if window is None else window if isinstance(window, str) else " ".join(map(str, window))
    return Part(title="Data", paragraphs=(f"The data set {plan['data_set']}, window {words}, planned for {plan['units']:,} units.",))


def _privacy(release: Release) -> Part:
    return Part(title="Privacy", paragraphs=(release.statement(), *(f"Assumed: {sentence}" for _, sentence in release.assumptions)))


def _budget(history: History) -> Part:
    return Part(title="Budget", paragraphs=(history.balance.describe(),))


def _metrics(history: History) -> list[Part]:
    """The paid evaluation of each night, the newest first; nothing where there is none."""
    judged = [(night, found) for night in history.nights if (found := night.evaluation) is not None][-SHOWN:]
    if not judged:
        return [Part(title="How good it is", paragraphs=("No release was evaluated: `evaluate:` in the configuration pays for it.",))]
    names = list(dict.fromkeys(name for _, found in judged for name in found.metrics))
    rows = [
        (night.time[:10], *(found.metrics[name].words() if name in found.metrics else "" for name in names), found.change_words())
        for night, found in reversed(judged)
    ]
    head = ("night", *map(metric_name, names), "change")
    words = f"Asked of units that are never fitted on; each with its {judged[-1][1].level:.0%} interval."
    return [Part(title="How good it is", paragraphs=(words,), rows=(head, *rows))]
