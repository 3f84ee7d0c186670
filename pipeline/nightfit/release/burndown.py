"""How the budgets of a data set's blocks burn down: as numbers, a bar of text, and one self-contained page. Imports the ledger and html."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from nightfit.ledger import Ledger, Policy
from nightfit.ledger.history import Charge, charges, migrated_balances
from nightfit.ledger.windows import times
from nightfit.privacy.accounting import Cost, Currency, RenyiOrder, epsilon_of
from nightfit.release.balance import share_left
from nightfit.release.html import html_page, table

WIDTH, HEIGHT, LEFT, BOTTOM = 900, 300, 46, 28  # of the plot and its margins, in pixels
MOST_LINES = 400  # in one plot: more would be a grey area


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockBudget:
    """How one block's budget was spent.

    Parameters
    ----------
    block
        Its account.
    steps
        For each charge: its number in the data set, and the share that was left after it.
    left
        The share that is left now.
    enforced
        The epsilon by which the ledger refuses.
    tight
        The exact epsilon of Gaussian queries; where others were asked too, the enforced one.
    refits_left
        How many runs of the latest cost still fit.
    """

    block: str
    steps: tuple[tuple[int, float], ...]
    left: float
    enforced: float
    tight: float
    refits_left: int


def block_budgets(ledger: Ledger, data_set: str) -> list[BlockBudget]:
    """Every block that was ever charged, in the order of first charges."""
    policy, every = ledger.policies()[data_set], charges(ledger, data_set)
    since, begun = (migrated_balances(ledger, data_set) or [(0, {})])[-1]
    by_account: defaultdict[str, list[tuple[int, Charge]]] = defaultdict(list, {account: [] for account in begun})
    for number, charge in enumerate(every, start=1):
        for account in charge.accounts if charge.seq > since else ():
            by_account[account].append((number, charge))
    last = every[-1].cost if every else Cost()
    order = policy.renyi_order if ledger.single_order(data_set) else None
    known: dict[tuple[Cost, Cost | None], tuple[float, float]] = {}
    return [
        _block_budget(account, begun.get(account, Cost()), charged, policy, order, last, known) for account, charged in by_account.items()
    ]


def _block_budget(
    account: str,
    begun: Cost,
    charged: Sequence[tuple[int, Charge]],
    policy: Policy,
    order: RenyiOrder | None,
    last: Cost,
    known: dict[tuple[Cost, Cost | None], tuple[float, float]],
) -> BlockBudget:
    limit, spent = policy.limit(), begun
    exact: Cost | None = Cost() if begun == Cost() else None
    steps = [] if begun == Cost() else [(max(1, charged[0][0] - 1) if charged else 1, share_left(begun, limit))]
    for number, charge in charged:
        spent += charge.cost
        exact = None if exact is None or charge.tight is None else exact + charge.tight
        steps.append((number, share_left(spent, limit)))
    if (spent, exact) not in known:
        enforced = epsilon_of(spent, policy.delta, policy.currency, order)
        tight = enforced if exact is None else min(enforced, epsilon_of(exact, policy.delta, Currency.GAUSSIAN))
        known[spent, exact] = enforced, tight
    enforced, tight = known[spent, exact]
    return BlockBudget(
        block=account,
        steps=tuple(steps),
        left=steps[-1][1] if steps else 1.0,
        enforced=enforced,
        tight=tight,
        refits_left=times(spent, last, limit) if last.amount else 0,
    )


def bar(share: float, width: int = 18) -> str:
    """What is left, as a bar of text."""
    full = round(max(0.0, min(1.0, share)) * width)
    return "█" * full + "░" * (width - full)


def page(ledger: Ledger) -> str:
    """The plots of all data sets, as HTML that loads and runs nothing."""
    sections = []
    for data_set, policy in ledger.policies().items():
        blocks = block_budgets(ledger, data_set)
        sections.append(
            f"<section><h2>{escape(data_set)}</h2><p>Policy {escape(policy.describe())}: "
            f"{'per year' if policy.per == 'year' else 'for life'}, for each block by itself.</p>"
            f"{_plot(blocks)}{_table(blocks)}</section>\n"
        )
    name = escape(ledger.ledger_id)
    return html_page(f"Ledger {name}", f"<header><h1>Ledger {name}</h1></header>\n{''.join(sections)}")


def _plot(blocks: Sequence[BlockBudget]) -> str:
    """What is left of each block's budget after each charge of the data set."""
    shown = blocks[-MOST_LINES:]
    if not shown:
        return "<p class=faint>Nothing was charged.</p>"
    first, last = min(block.steps[0][0] for block in shown), max(block.steps[-1][0] for block in shown)

    def x(number: float) -> float:
        return LEFT + (WIDTH - LEFT - 8) * (number - first + 1) / max(1, last - first + 1)

    def y(share: float) -> float:
        return 8 + (HEIGHT - BOTTOM - 8) * (1 - max(0.0, share))

    lines = "".join(_line(block, x, y) for block in shown)
    grid = "".join(
        f'<line x1="{LEFT}" x2="{WIDTH - 8}" y1="{y(share):.1f}" y2="{y(share):.1f}" stroke="var(--line)"/>'
        f'<text x="{LEFT - 6}" y="{y(share) + 4:.1f}" text-anchor="end" font-size="12" fill="var(--faint)">{share:.0%}</text>'
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    note = "" if len(shown) == len(blocks) else f" The {len(shown)} newest of {len(blocks)} blocks are drawn."
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="budget left per block">{grid}{lines}'
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 8}" text-anchor="end" font-size="12" fill="var(--faint)">charge {first} to {last}</text></svg>'
        f"<p class=faint>What is left of each block's budget, after each charge.{note}</p>"
    )


def _line(block: BlockBudget, x: Callable[[float], float], y: Callable[[float], float]) -> str:
    """A staircase from a full budget at the block's first charge."""
    points, share = [f"M{x(block.steps[0][0] - 1):.1f} {y(1.0):.1f}"], 1.0
    for number, after in block.steps:
        points.append(f"H{x(number):.1f}V{y(after):.1f}")
        share = after
    colour = "var(--bad)" if share < 0.05 else "var(--accent)"
    return f'<path d="{"".join(points)}" fill="none" stroke="{colour}" stroke-opacity="0.55"><title>{escape(block.block)}</title></path>'


def _table(blocks: Sequence[BlockBudget]) -> str:
    rows = [
        (block.block, f"{len(block.steps):,}", f"{block.left:.1%}", f"{block.enforced:.4g}", f"{block.tight:.4g}", f"{block.refits_left:,}")
        for block in blocks
    ]
    return table(("block", "charges", "left", "epsilon enforced", "epsilon tight", "refits left"), rows)
