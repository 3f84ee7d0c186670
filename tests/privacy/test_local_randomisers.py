"""Local reports: right on average, private one by one, the same when repeated. Keys are fixed: no test is left to chance."""

import dataclasses
import itertools
import math
import pickle
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import kstest

from nightfit.numerics.keystream import LABEL, ORDER, Key, draw, fill, uniforms
from nightfit.plugins import members
from nightfit.privacy.audit import pure_lower_bound
from nightfit.privacy.local import randomisers as local
from nightfit.privacy.local.curriculum import Everyone, LabelOnly, Masked, threshold
from nightfit.privacy.local.protocol import LocalProtocol, ReportSum, Walk
from nightfit.privacy.local.randomisers.djw import HALF, PrivateSampling
from nightfit.privacy.local.randomisers.privunit import PrivUnit
from nightfit.privacy.local.reports import BITS, Randomiser, report_sums
from nightfit.privacy.local.schedule import Schedule, schedule
from nightfit.privacy.local.server import Server, State, step_size_of
from nightfit.problem.losses.gompertz import Gompertz
from nightfit.problem.losses.hinge import Hinge
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.ramp import Ramp
from nightfit.types import Block

KEY = Key(bytes(range(32)))
SAMPLERS = [PrivateSampling, PrivUnit]
LOSSES = [Hinge(), Logistic(), Gompertz(), Ramp()]


def slots(count, start=0):
    return np.arange(start, start + count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def repeated(x, y, count):
    """The same record with many slots: as many independent reports of it."""
    return Block(np.tile(np.asarray(x, dtype=float), (count, 1)), np.full(count, float(y)), slots(count))


def each_report(block, weights, randomiser, key=KEY, epoch=0):
    """Every record's report, or a row of NaN where none was sent."""
    prepared, out = randomiser.prepare(key, epoch, block), np.full(block.X.shape, np.nan)
    scale, bars = randomiser.norm(block.X.shape[1]) / 2.0**BITS, randomiser.curriculum.thresholds(epoch)
    for i in range(len(block)):
        sums = np.zeros(block.X.shape[1])
        if randomiser.add(prepared, i, i + 1, weights, bars, 2.0**BITS, sums):
            out[i] = sums * scale
    return out


def test_the_cipher_is_that_of_rfc_8439():
    words = np.empty((3, 16), dtype=np.uint32)
    key = np.frombuffer(bytes(range(32)), dtype="<u4").astype(np.uint32)
    fill(key, np.uint32(0x09000000), np.array([7, 0x4A000000, 9], dtype=np.uint64), np.uint32(1), 1, words)
    wanted = (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4ed2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )
    assert words[1].astype("<u4").tobytes().hex() == wanted


def test_numbers_are_normal_and_depend_on_their_slot_alone():
    numbers, coins = np.empty((20_000, 10)), np.empty(20_000, dtype=np.uint64)
    draw(KEY, 0, slots(20_000), 0, numbers, coins)
    assert kstest(numbers.ravel(), "norm").pvalue > 1e-3
    assert kstest(coins / 2.0**64, "uniform").pvalue > 1e-3
    assert (np.abs(numbers.ravel()) > 3.66).mean() == pytest.approx(math.erfc(3.66 / math.sqrt(2)), rel=0.3)
    some = np.array([3, 11_111, 19_999, 4])
    again, tossed = np.empty((4, 10)), np.empty(4, dtype=np.uint64)
    draw(KEY, 0, slots(20_000)[some], 0, again, tossed)
    assert (again == numbers[some]).all()
    assert (tossed == coins[some]).all()
    for epoch, attempt in ((1, 0), (0, 1)):
        other = np.empty((4, 10))
        draw(KEY, epoch, slots(20_000)[some], attempt, other, tossed)
        assert (other != again).all()


def test_a_tape_longer_than_its_first_blocks_goes_on():
    numbers, coins = np.empty((2_000, 1)), np.empty(2_000, dtype=np.uint64)
    wide = np.empty((2_000, 400))
    draw(KEY, 0, slots(2_000), 0, numbers, coins)
    draw(KEY, 0, slots(2_000), 0, wide, coins)
    assert (numbers[:, 0] == wide[:, 0]).all()
    assert np.isfinite(wide).all()
    assert kstest(wide[:, -5:].ravel(), "norm").pvalue > 1e-3


@pytest.mark.parametrize("columns", [1, 2, 10, 50])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_report_is_unbiased_and_the_printed_scale_doubles_it(sampler, columns):
    count, randomiser = 120_000, Randomiser(loss=Hinge(), bound=2.0, sampler=sampler(epsilon=1.0), curriculum=Everyone())
    x = np.random.default_rng(columns).normal(size=columns)
    x *= 1.2 / np.linalg.norm(x)  # the hinge at w = 0 has the gradient -y x, 0.6 of the bound
    answer = report_sums(repeated(x, 1.0, count), np.zeros(columns), randomiser, KEY, 0)
    mean = answer[1:] * (randomiser.norm(columns) / 2.0**BITS / count)
    error = randomiser.norm(columns) / math.sqrt(count * columns)  # of each coordinate
    assert answer[0] == count
    assert np.abs(mean + x).max() < 4.5 * error
    if sampler is PrivateSampling:
        gammas = math.exp(math.lgamma((columns - 1) / 2 + 1) - math.lgamma(columns / 2 + 1))
        printed = 2.0 * math.sqrt(math.pi) * (math.e + 1) / (math.e - 1) * columns * gammas  # Han et al. (2018), eq. 11
        assert printed / randomiser.norm(columns) == pytest.approx(2.0)
        along = -mean @ x / (x @ x) * printed / randomiser.norm(columns)
        assert along == pytest.approx(2.0, abs=0.2)


def test_a_report_is_longer_than_the_paper_bounds_it():
    """d Gamma((d - 1) / 2 + 1) / Gamma(d / 2 + 1) is 4.36 at d = 10, not at most sqrt(d) = 3.16; it is at most sqrt(2 d)."""
    for columns in (1, 2, 10, 50, 785):
        factor = 2 / math.sqrt(math.pi) * PrivateSampling(epsilon=1.0).size(columns) * math.tanh(0.5)
        assert math.sqrt(columns) < factor <= math.sqrt(2 * columns)
        assert columns != 10 or factor == pytest.approx(4.36, abs=0.005)


def test_a_gradient_above_its_bound_is_cut_to_it():
    randomiser = Randomiser(loss=Hinge(), bound=0.5, sampler=PrivateSampling(epsilon=2.0), curriculum=Everyone())
    answer = report_sums(repeated([0.8, 0.6], -1.0, 50_000), np.zeros(2), randomiser, KEY, 0)
    mean = answer[1:] * (randomiser.norm(2) / 2.0**BITS / 50_000)
    assert mean == pytest.approx([0.4, 0.3], abs=0.03)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_report_has_the_same_norm(sampler):
    rng = np.random.default_rng(1)
    block = Block(rng.normal(size=(60, 7)), rng.choice([-1.0, 1.0], 60), slots(60))
    randomiser = Randomiser(loss=Logistic(), bound=1.0, sampler=sampler(epsilon=3.0), curriculum=Masked())
    norms = np.linalg.norm(each_report(block, rng.normal(size=7), randomiser), axis=1)
    assert norms == pytest.approx(randomiser.norm(7), rel=1e-8)


def angles(block, weights, randomiser, epoch=0):
    """Counts of the reports' angles in 4 quarters, and of records that sent none."""
    reports = each_report(block, weights, randomiser, epoch=epoch)
    sent = ~np.isnan(reports[:, 0])
    found = np.histogram(np.arctan2(reports[sent, 1], reports[sent, 0]), bins=4, range=(-math.pi, math.pi))[0]
    return np.append(found, (~sent).sum())


RECORDS = {
    "full": ([1.0, 0.0], 1.0),
    "opposite": ([1.0, 0.0], -1.0),
    "across": ([0.1, 1.0], 1.0),
    "zero": ([0.0, 0.0], 0.0),
    "passed": ([-4.0, 0.0], 1.0),  # the hinge is flat at its margin of 2
    "huge": ([1e300, -1e300], 1.0),
    "no number": ([math.nan, 1.0], 1.0),
}
WEIGHTS = np.array([-0.5, 0.0])


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_no_report_tells_neighbours_apart_better_than_its_epsilon(sampler):
    """The largest of 42 lower bounds; a false alarm has probability below 42e-6, and the keys are fixed."""
    randomiser = Randomiser(loss=Hinge(), bound=0.5, sampler=sampler(epsilon=1.0), curriculum=Everyone())
    counts = {name: angles(repeated(x, y, 12_000), WEIGHTS, randomiser) for name, (x, y) in RECORDS.items()}
    assert all(found[-1] == 0 for found in counts.values())
    bounds = [pure_lower_bound(one, other, confidence=1 - 1e-6) for one in counts.values() for other in counts.values()]
    assert 0.6 < max(bounds) <= 1.0  # and it comes near


def test_a_histogram_catches_more_epsilon_than_promised():
    randomiser = Randomiser(loss=Hinge(), bound=0.5, sampler=PrivateSampling(epsilon=1.5), curriculum=Everyone())
    full, opposite = (angles(repeated(*RECORDS[name], 12_000), WEIGHTS, randomiser) for name in ("full", "opposite"))
    assert pure_lower_bound(full, opposite, confidence=1 - 1e-6) > 1.0


CURRICULA = {"masked": Masked(start=1.5), "the paper's": LabelOnly(label_epsilon=0.2, start=1.5)}


@pytest.mark.parametrize("name", CURRICULA)
def test_whether_a_record_passed_the_curriculum_cannot_be_told(name):
    """Two records on either side of the threshold. The paper splits epsilon 1 as 0.2 and 0.8 and lets everyone see who reports."""
    masked = name == "masked"
    sampler = PrivateSampling(epsilon=1.0 if masked else 0.8)
    randomiser = Randomiser(loss=Logistic(), bound=0.5, sampler=sampler, curriculum=CURRICULA[name])
    counts = [angles(repeated(x, 1.0, 12_000), WEIGHTS, randomiser) for x in ([-4.0, 0.0], [-0.2, 0.0])]
    bound = pure_lower_bound(*counts, confidence=1 - 1e-6)
    assert (bound <= 1.0) == masked
    if not masked:
        assert bound > 3  # a record near the hyperplane never reports, one far from it in 55 of 100 cases


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 30.0])
def test_the_coin_is_within_e_to_the_epsilon_exactly(epsilon):
    reach = PrivateSampling(epsilon=epsilon).reach
    high, low = int(np.uint64(HALF + reach)), int(np.uint64(HALF - reach))
    with mpmath.workdps(60):
        for odds in (Fraction(high, low), Fraction(2**64 - low, 2**64 - high)):
            ratio = mpmath.mpf(odds.numerator) / odds.denominator
            assert (1 - 1e-6 if epsilon < 10 else 0.1) * math.exp(epsilon) < ratio <= mpmath.exp(mpmath.mpf(epsilon))


@pytest.mark.parametrize("columns", [1, 2, 3, 10, 108])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0, 8.0])
def test_the_cap_is_as_likely_and_as_long_as_said(epsilon, columns):
    cap = PrivUnit(epsilon=epsilon).cap(columns)
    assert 1 / cap.alpha <= math.exp(epsilon)
    assert cap.accepted >= 1 / 32 - 1e-12
    if columns == 1:
        assert cap.mean == pytest.approx((1 - cap.alpha) / (1 + cap.alpha))
        return
    with mpmath.workdps(25):
        density = lambda t: mpmath.sin(t) ** (columns - 2)  # noqa: E731
        edge = mpmath.acos(cap.gamma)
        all_, inside = mpmath.quad(density, [0, edge, mpmath.pi]), mpmath.quad(density, [0, edge])
        first = mpmath.quad(lambda t: mpmath.cos(t) * density(t), [0, edge]) / all_
        share = inside / all_
        accepted = share + cap.alpha * (1 - share)
        assert float(accepted) == pytest.approx(cap.accepted, rel=1e-9)
        assert float((1 - cap.alpha) * first / accepted) == pytest.approx(cap.mean, rel=1e-9)
    assert PrivUnit(epsilon=epsilon).size(columns) <= PrivateSampling(epsilon=epsilon).size(columns) * (1 + 1e-3)


@pytest.mark.parametrize("cohorts", [True, False])
@pytest.mark.parametrize("cells", [1, 7])
def test_a_record_reports_as_often_as_its_budget_says(cohorts, cells):
    drawn = Schedule(units=5_000, batch=5, epochs=3, cohorts=cohorts, cells=cells, together=False)
    times = sum(drawn.members(KEY, epoch, cell, slots(5_000))[0].astype(int) for epoch in range(3) for cell in range(cells))
    assert (times == drawn.reports).all()
    sizes = [drawn.members(KEY, epoch, cell, slots(5_000))[0].sum() for epoch in range(3) for cell in range(cells)]
    assert max(sizes) - min(sizes) < 6 * math.sqrt(5_000 * drawn.reports / len(sizes))


def problem(count=2_000, columns=6):
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (count, columns))
    y = np.sign(X @ np.arange(1, columns + 1) + 0.3 * rng.normal(size=count))
    return Block(X, y, slots(count))


def cut(block, *places):
    ends = [0, *places, len(block)]
    return [Block(block.X[a:b], block.y[a:b], block.slots[a:b]) for a, b in itertools.pairwise(ends)]


def shuffled(block, seed=0):
    order = np.random.default_rng(seed).permutation(len(block))
    return Block(block.X[order], block.y[order], block.slots[order])


def walk(batch=5, curriculum=None, sampler=None, **changed):
    randomiser = Randomiser(
        loss=Logistic(), bound=1.5, sampler=sampler or PrivateSampling(epsilon=2.0), curriculum=curriculum or Everyone()
    )
    server = Server(radius=4.0, l2=0.01, strongly=False, size=step_size_of(randomiser.norm(6), 1.5, batch, 0.01, 4.0), penalised=6)
    told = {"units": 2_000, "columns": 6, "batch": batch, "epochs": 2, "cohorts": True} | changed
    protocol = LocalProtocol(randomiser=randomiser, schedule=schedule(**told))
    return Walk(protocol=protocol, server=server, epoch=0, cell=0, state=server.start(6))


def run(question, parts, key=KEY):
    return question.whole([question.part(part, key) for part in parts], key)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("batch", [1, 5, 10, 700])
def test_a_walk_is_the_same_for_any_chunks_and_order(batch, sampler):
    asked, block = walk(batch, sampler=sampler(epsilon=2.0)), problem()
    answer = run(asked, [block])
    assert (run(asked, cut(shuffled(block), 17, 17, 900)) == answer).all()
    assert (run(pickle.loads(pickle.dumps(asked)), list(reversed(cut(block, 300)))) == answer).all()
    members = asked.protocol.schedule.members(KEY, 0, 0, block.slots)[0].sum()
    assert State.unpacked(answer).step == math.ceil(members / batch)
    assert (run(asked, [block], Key(bytes(32))) != answer).any()


@pytest.mark.parametrize("curriculum", [Everyone(), Masked(), LabelOnly(label_epsilon=1.0, start=0.0)])
def test_a_repeated_task_repeats_its_reports(curriculum):
    """A batch summed over shards: cut, shuffled or done again, the integers are the same."""
    randomiser = Randomiser(loss=Hinge(), bound=1.5, sampler=PrivateSampling(epsilon=1.0), curriculum=curriculum)
    times = schedule(units=2_000, columns=6, batch=500, epochs=2, cohorts=False)
    asked = ReportSum(protocol=LocalProtocol(randomiser=randomiser, schedule=times), epoch=1, cell=0, weights=np.linspace(-1, 1, 6))
    answer = run(asked, [problem()])
    assert (run(asked, cut(shuffled(problem()), 1, 2, 1_999)) == answer).all()
    other = dataclasses.replace(asked, epoch=0)
    assert (run(other, [problem()])[1:] != answer[1:]).all()


def test_a_walk_sees_rows_through_reports_alone():
    """Halved rows have the same directions, and gradients far above their bound the same leans: the walk must not notice, in any bit."""
    told, block = walk(1), problem()
    randomiser = Randomiser(loss=Hinge(), bound=1e-3, sampler=PrivateSampling(epsilon=2.0), curriculum=Everyone())
    server = Server(radius=0.1, l2=0.01, strongly=False, size=randomiser.norm(6), penalised=6)  # so that no margin reaches 1
    asked = dataclasses.replace(told, protocol=dataclasses.replace(told.protocol, randomiser=randomiser), server=server)
    halved = Block(block.X / 2, block.y, block.slots)
    assert (run(asked, [halved]) == run(asked, [block])).all()
    assert (run(asked, [Block(block.X, -block.y, block.slots)]) != run(asked, [block])).any()


def test_a_walk_steps_on_the_mean_of_each_batch():
    asked, block = walk(400), problem()
    chosen = asked.part(block, KEY)
    order = np.argsort(asked.protocol.schedule.members(KEY, 0, 0, chosen.slots)[1])
    state = asked.server.start(6)
    for start in range(0, len(chosen), 400):
        rows = order[start : start + 400]
        batch = Block(chosen.X[rows], chosen.y[rows], chosen.slots[rows])
        reports = each_report(batch, state.weights, asked.protocol.randomiser)
        state = asked.server.update(state, reports.mean(axis=0))
    found = State.unpacked(run(asked, [block]))
    assert found.weights == pytest.approx(state.weights, rel=1e-6)
    assert found.average() == pytest.approx(state.average(), rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_walk_learns(loss):
    block = problem(20_000)
    told = walk(10, epochs=1, units=20_000)
    randomiser = Randomiser(loss=loss, bound=1.5, sampler=PrivateSampling(epsilon=4.0), curriculum=Everyone())
    asked = dataclasses.replace(told, protocol=dataclasses.replace(told.protocol, randomiser=randomiser))
    state = State.unpacked(run(asked, [block]))
    assert (np.sign(block.X @ state.average()) != block.y).mean() < 0.2


@pytest.mark.parametrize("curriculum", [Everyone(), Masked()])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_whatever_a_record_holds_it_sends_one_bounded_report(sampler, loss, curriculum):
    X = np.array([[0, 0], [np.nan, 1], [np.inf, -np.inf], [1e308, 1e308], [5e-324, 0], [-0.0, 1e-200], [1e-160, 1e-160]])
    block = Block(X, np.array([0.0, 1, -1, 1, np.nan, -1, 1]), slots(7))
    randomiser = Randomiser(loss=loss, bound=1.0, sampler=sampler(epsilon=1.0), curriculum=curriculum)
    for weights in (np.zeros(2), np.array([1e300, -1e300]), np.array([np.inf, np.nan])):
        norms = np.linalg.norm(each_report(block, weights, randomiser), axis=1)
        assert norms == pytest.approx(randomiser.norm(2), rel=1e-8)


def test_a_label_is_flipped_once_for_the_whole_fit():
    curriculum, y = LabelOnly(label_epsilon=0.5), np.ones(40_000)
    randomiser = Randomiser(loss=Hinge(), bound=1.0, sampler=PrivateSampling(epsilon=1.0), curriculum=curriculum)
    block = Block(np.ones((40_000, 1)), y, slots(40_000))
    first, second = (randomiser.prepare(KEY, epoch, block).block.y for epoch in (0, 3))
    assert (first == second).all()
    assert (first < 0).mean() == pytest.approx(1 / (1 + math.exp(0.5)), abs=0.01)
    assert (curriculum.labels(Key(bytes(32)), y, block.slots) != first).any()


def test_the_threshold_falls_by_the_root_of_the_epoch():
    falls = [threshold(1.5, 1.0, epoch) for epoch in range(4)]
    assert falls == pytest.approx([1.5, 0.5, 0.5 - math.sqrt(2), 0.5 - math.sqrt(2) - math.sqrt(3)])
    assert Masked().thresholds(1).learn == 0.5
    assert Masked().thresholds(1).send == -math.inf


def test_the_server_steps_and_stays_in_its_ball():
    server = Server(radius=2.0, l2=0.5, strongly=False, size=4.0, penalised=1)
    state = server.update(State(3, np.array([1.0, 0.5]), np.zeros(2)), np.array([0.4, -0.2]))
    eta = 2.0 / (4.0 * 2.0)
    assert state.weights == pytest.approx([1.0 - eta * (0.5 + 0.4), 0.5 + eta * 0.2])
    assert state.step == 4
    strong = Server(radius=2.0, l2=0.5, strongly=True, size=4.0, penalised=1)
    assert strong.update(state, np.zeros(2)).weights[0] == pytest.approx(state.weights[0] * (1 - 1 / 5))
    far = server.update(state, np.array([100.0, -100.0]))
    assert np.linalg.norm(far.weights) == pytest.approx(2.0)
    again = State.unpacked(far.packed())
    assert (again.step, again.weights.tolist(), again.summed.tolist()) == (far.step, far.weights.tolist(), far.summed.tolist())
    assert far.average() == pytest.approx((state.weights + far.weights) / 5)


def test_a_batch_of_one_has_the_step_of_the_paper():
    assert step_size_of(10.0, 1.0, 1, 0.1, 3.0) == pytest.approx(10.0 + 0.3)


def test_the_key_is_in_no_repr_and_no_pickle():
    assert "secret" not in repr(KEY)
    assert "\\x" not in repr(KEY)
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(KEY)
    assert KEY.secret not in pickle.dumps(walk())


@pytest.mark.parametrize(
    "made",
    [
        lambda: PrivateSampling(epsilon=0.0),
        lambda: PrivateSampling(epsilon=math.nan),
        lambda: PrivateSampling(epsilon=math.inf),
        lambda: PrivUnit(epsilon=-1.0),
        lambda: PrivUnit(epsilon=31.0),
        lambda: PrivUnit(epsilon=1e-3).cap(2_000),
        lambda: LabelOnly(label_epsilon=0.0),
        lambda: LabelOnly(label_epsilon=1.0, start=math.nan),
        lambda: Masked(drop=-1.0),
        lambda: Randomiser(loss=Hinge(), bound=0.0, sampler=PrivateSampling(epsilon=1.0), curriculum=Everyone()),
        lambda: Server(radius=0.0, l2=0.0, strongly=False, size=1.0, penalised=1),
        lambda: Server(radius=1.0, l2=-1.0, strongly=False, size=1.0, penalised=1),
        lambda: Server(radius=1.0, l2=0.0, strongly=True, size=1.0, penalised=1),
        lambda: schedule(units=10, columns=3, batch=0, epochs=1, cohorts=True),
        lambda: schedule(units=10, columns=3, batch=1, epochs=0, cohorts=True),
        lambda: Schedule(units=10, batch=1, epochs=2**20, cohorts=True, cells=2**20, together=True),
        lambda: Key(b"short"),
        lambda: uniforms(KEY, LABEL, 2**24, slots(1)),
        lambda: pure_lower_bound(np.array([1, 2]), np.array([1])),
    ],
)
def test_what_makes_no_sense_is_refused(made):
    with pytest.raises(ValueError, match=r".{10}"):
        made()


def test_purposes_share_no_randomness():
    assert (uniforms(KEY, LABEL, 0, slots(100)) != uniforms(KEY, ORDER, 0, slots(100))).all()


def test_every_sampler_is_found_by_its_file():
    assert sorted(members(local)) == ["djw", "privunit"]
