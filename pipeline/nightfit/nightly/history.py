"""Every night of a model, from the ledger, the releases and the journal: state, cost, metric, what moved, what is left. Imports release,
ledger and below.
"""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from nightfit.config import Config, ConfigError
from nightfit.ledger import Ledger, Policy
from nightfit.ledger.history import Charge, charges, migrated_balances, policy_changes
from nightfit.ledger.policy import buckets_of
from nightfit.ledger.promotions import Promotion, promotions
from nightfit.ledger.windows import bucket_names, window_of
from nightfit.nightly import journal
from nightfit.nightly.promotion import in_words
from nightfit.nightly.publication import balance_of
from nightfit.privacy.accounting import Cost, epsilon_of
from nightfit.release import Release, releases_in
from nightfit.release.balance import Balance, share_left
from nightfit.release.metrics import Evaluation, evaluation_of
from nightfit.release.movement import Move, moved
from nightfit.release.shifts import Shift, shifted

STATES = {"reserved": "unfinished", "finished": "released", "abandoned": "abandoned"}  # of the ledger, in the words of the history
PATTERN = 30  # nights from which the usual time between two is taken: about a month
ABSENT = "no private release of it is in the output folder"
FEWEST = 4  # nights that show a pace: one or two refits more, by hand on one day, are none
FARTHEST = timedelta(days=100 * 365)  # a projection beyond a century is none


@dataclass(frozen=True, kw_only=True)
class PastNight:
    """One night.

    Attributes
    ----------
    time : str
        When it began; of a missed one, when it was due.
    state : str
        `released`, `unfinished`, `abandoned` (by the ledger); `unchanged`, `failed`, `refused`, `missed`, `overlapped` (by the journal).
    run : str, optional
        In the ledger.
    epsilon : float, optional
        What it cost by itself, at the policy's delta.
    share : float, optional
        What it took of its most used block's budget.
    left : float, optional
        What was left of that budget after it.
    release : Release, optional
        If it is private, here, and what the ledger bound.
    moved : tuple of Move
        Coefficients that moved beyond their noise since the release that was in use, or else the one before: a drift too slow to be seen
        from night to night is seen so.
    shifted : tuple of Shift
        Paid checks of the outcome that changed beyond their intervals since the same release.
    note : str
        What else there is to say.
    in_use : bool
        Whether its release is the current one.
    """

    time: str
    state: str
    run: str | None = None
    epsilon: float | None = None
    share: float | None = None
    left: float | None = None
    release: Release | None = None
    moved: tuple[Move, ...] = ()
    shifted: tuple[Shift, ...] = ()
    note: str = ""
    in_use: bool = False

    @property
    def evaluation(self) -> Evaluation | None:
        """Its paid evaluation."""
        return None if self.release is None else evaluation_of(self.release)

    @property
    def suspect(self) -> bool:
        """Whether its paid checks say that the export was poorer than before."""
        return any(one.suspect for one in self.shifted)

    @property
    def changes(self) -> list[str]:
        """What changed beyond its noise, in words: what the export lacks, the outcome, coefficients."""
        return [*self.changes_of_data, *(one.words() for one in self.moved)]

    @property
    def changes_of_data(self) -> list[str]:
        """Which paid checks changed: what the export holds, and the outcome."""
        return [one.words() for one in self.shifted]


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that is not a night: a policy, a promotion, an edited file. `time` is that of the night before where no clock told."""

    time: str
    kind: str
    words: str


@dataclass(frozen=True, kw_only=True)
class History:
    """All nights of a model.

    Attributes
    ----------
    model, data_set : str
        Names.
    policy : Policy
        The budget.
    nights : tuple of PastNight
        Oldest first.
    events : tuple of Event
        Oldest first.
    balance : Balance
        What is left of the budget of the most used block of the latest run; before the first one, of the data set's.
    nights_left : int, optional
        How many more like the latest one; None before the first.
    goes_on : bool
        Whether budgets never end, if a new block comes every night.
    last_night : str, optional
        The projected date of the last night; None if there is none in a century.
    """

    model: str
    data_set: str
    policy: Policy
    nights: tuple[PastNight, ...]
    events: tuple[Event, ...]
    balance: Balance
    nights_left: int | None = None
    goes_on: bool = False
    last_night: str | None = None

    @property
    def current(self) -> PastNight | None:
        """The night whose release is in use."""
        return next((night for night in reversed(self.nights) if night.in_use), None)


def history_of(config: Config, ledger: Ledger) -> History:
    """The history of a configuration's model.

    Parameters
    ----------
    config : Config
        Names model, data set and output folder.
    ledger : Ledger
        Its ledger.

    Returns
    -------
    History

    Raises
    ------
    ConfigError
        If the ledger has no policy for the data set.
    """
    policy = ledger.policies().get(config.data_set)
    if policy is None:
        raise ConfigError(f"the ledger has no policy for {config.data_set!r}: there was no night yet")
    states = {run["run"]: run["state"] for run in ledger.runs() if (run["model"], run["data_set"]) == (config.name, config.data_set)}
    charged = charges(ledger, config.data_set)
    found, edited = _releases(config, ledger)
    decided = [one for one in promotions(ledger) if (one.model, one.data_set) == (config.name, config.data_set)]
    paid = _with_changes(_paid_nights(charged, states, policy, ledger, found, decided), decided)
    nights = sorted([*paid, *_unpaid_nights(config)], key=lambda night: night.time)
    moves = [_decided(one) for one in decided if one.decision != "kept"]
    events = sorted([*_policies(ledger, config.data_set, charged), *moves, *edited], key=lambda event: event.time)
    whole = History(
        model=config.name,
        data_set=config.data_set,
        policy=policy,
        nights=tuple(nights),
        events=tuple(events),
        balance=balance_of(ledger, config.data_set),
    )
    latest = next((charge for charge in reversed(charged) if charge.run in states and charge.cost.amount), None)
    return whole if latest is None else _projected(whole, config, ledger, latest)


def _releases(config: Config, ledger: Ledger) -> tuple[dict[str, Release], list[Event]]:
    """Private releases of the model that are what the ledger bound, and an event for each that is not."""
    kept, edited = {}, []
    for name, release in releases_in(config.output_folder) if config.output_folder.is_dir() else []:
        if release.name != config.name or not release.private:
            continue
        problem = ledger.check_release(release.claim).problem
        if problem is None:
            kept[release.run_id] = release
        else:
            edited.append(Event(time=str(release.content["time"]), kind="edited", words=f"{name} {problem}"))
    return kept, edited


def _paid_nights(
    charged: Sequence[Charge],
    states: dict[str, str],
    policy: Policy,
    ledger: Ledger,
    found: dict[str, Release],
    decided: Sequence[Promotion],
) -> list[PastNight]:
    """The runs of the model, with what each left of the budget, which all models of the data set share."""
    limit, order = policy.limit(), policy.renyi_order if ledger.single_order(policy.data_set) else None
    spent: defaultdict[str, Cost] = defaultdict(Cost)
    known: dict[Cost, float] = {}
    used = decided[-1].current if decided else None
    told = {one.run: in_words(one) for one in decided}
    nights = []
    migrations = dict(migrated_balances(ledger, policy.data_set))
    for charge in charged:
        for seq in [seq for seq in migrations if seq < charge.seq]:
            spent = defaultdict(Cost, migrations.pop(seq))
        for account in charge.accounts:
            spent[account] += charge.cost
        if charge.run not in states:
            continue
        if charge.cost not in known:
            known[charge.cost] = epsilon_of(charge.cost, policy.delta, policy.currency, order)
        state = STATES[states[charge.run]]
        nights.append(
            PastNight(
                time=charge.started,
                state=state,
                run=charge.run,
                epsilon=known[charge.cost],
                share=1 - share_left(charge.cost, limit),
                left=min(share_left(spent[account], limit) for account in charge.accounts),
                release=found.get(charge.run),
                note=told.get(charge.run, "") if state != "released" or charge.run in found else ABSENT,
                in_use=charge.run == used,
            )
        )
    return nights


def _with_changes(nights: list[PastNight], decided: Sequence[Promotion]) -> list[PastNight]:
    """Each night with what changed since the release that was in use before it, or since the one before it."""
    in_use_before = {after.run: before.current for before, after in pairwise(decided)}
    by_run = {night.run: night.release for night in nights}
    told: list[PastNight] = []
    last: Release | None = None
    for night in nights:
        reference = by_run.get(in_use_before.get(str(night.run))) or last
        if reference is not None and night.release is not None:
            checks = shifted(evaluation_of(reference), night.evaluation)
            night = replace(night, moved=moved(reference, night.release), shifted=checks)
        told.append(night)
        last = night.release or last
    return told


def _unpaid_nights(config: Config) -> list[PastNight]:
    """Nights that the ledger does not know: nothing new, refused, failed, missed."""
    notes = [note for note in journal.read(config.output_folder, config.name) if note.state != "new"]
    return [PastNight(time=note.time, state=note.state, run=note.run, note=note.reason) for note in notes]


def _policies(ledger: Ledger, data_set: str, charged: Sequence[Charge]) -> list[Event]:
    """Policies have a place in the chain and no clock: each is shown at the night before it."""
    events = []
    for change in policy_changes(ledger, data_set):
        before = [charge.started for charge in charged if charge.seq < change.seq]
        because = "" if change.override is None else f", loosened because: {change.override}"
        events.append(Event(time=before[-1] if before else "", kind="policy", words=f"policy: {change.policy}{because}"))
    return events


def _decided(one: Promotion) -> Event:
    return Event(time=one.time, kind="promotion", words=f"{one.run} {in_words(one)}")


def _projected(whole: History, config: Config, ledger: Ledger, latest: Charge) -> History:
    """With what is left, and until when nights like the latest one can go on."""
    blocks = ledger.run_record(latest.run).blocks
    count, limit = buckets_of(whole.policy.blocks), whole.policy.limit()
    existing = blocks if count is None else bucket_names(count)
    spent = ledger.spent_by_block(whole.data_set, sorted({*existing, *blocks}))
    window = window_of(config.data.window)
    nights = window.nights_left(blocks, existing, spent, latest.cost, limit)
    times = [datetime.fromisoformat(night.time) for night in whole.nights if night.state == "released"][-PATTERN:]
    between = [after - before for before, after in pairwise(times)]
    usual = timedelta(seconds=statistics.median(gap.total_seconds() for gap in between)) if len(times) >= FEWEST else timedelta(days=1)
    goes_on = window.goes_on(nights)
    far = goes_on or not times or nights * usual > FARTHEST
    return replace(
        whole,
        balance=balance_of(ledger, whole.data_set, blocks=blocks),
        nights_left=nights,
        goes_on=goes_on,
        last_night=None if far else (times[-1] + nights * usual).date().isoformat(),
    )
