"""The recommender behind `MatrixCompletion` and the command: biases, path, factors fitted again."""

import numpy as np
import pytest

from condgrad.applications.choosing import Settings, choose
from condgrad.applications.factor_fit import FactorFit
from condgrad.applications.ratings import Observed, held_out, merged, rmse
from condgrad.applications.recommender import fit_recommender
from condgrad.applications.residual import ResidualFit
from condgrad.backends import threads
from condgrad.cli.ratings import facts_of
from condgrad.run.result import Status


def planted(users=80, items=60, share=0.3, rank=2, noise=0.3, seed=0):
    """Ratings of a model with biases and low rank, to fit and to predict."""
    rng = np.random.default_rng(seed)
    truth = 3 + rng.normal(size=(users, 1)) / 2 + rng.normal(size=items) / 2
    truth = truth + rng.normal(size=(users, rank)) @ rng.normal(size=(rank, items))
    i, j = np.nonzero(rng.random(truth.shape) < share)
    y = truth[i, j] + noise * rng.normal(size=i.size)
    test = rng.random(i.size) < 0.1
    whole = Observed(i, j, y, truth.shape)
    return whole.at(~test), whole.at(test)


def error_of(model, part):
    return rmse(model.rate(part.rows, part.cols), part.values)


def test_held_out_ratings_leave_every_user_and_item_one():
    rng = np.random.default_rng(0)
    i, j = np.nonzero(rng.random((50, 200)) < rng.random((50, 1)) ** 3)
    observed = Observed(i, j, np.ones(i.size), (50, 200))
    chosen, size = held_out(observed, 0.3, np.random.default_rng(1))
    assert size == chosen.sum() > 0.2 * i.size
    assert set(i[~chosen]) == set(i)
    assert set(j[~chosen]) == set(j)
    given, counts = (np.bincount(at, minlength=50) for at in (i[chosen], i))
    assert (given <= np.ceil(0.3 * counts)).all()
    again, _ = held_out(observed, 0.3, np.random.default_rng(1))
    assert np.array_equal(chosen, again)


def test_repeats_are_averaged():
    rng = np.random.default_rng(0)
    i, j, y = rng.integers(0, 4, 50), rng.integers(0, 3, 50), rng.normal(size=50)
    got = merged(i, j, y, (4, 3))
    assert len(set(zip(got.rows, got.cols, strict=True))) == got.values.size
    for a, b, value in zip(got.rows, got.cols, got.values, strict=True):
        assert value == pytest.approx(y[(i == a) & (j == b)].mean())


def test_the_model_predicts_as_well_as_its_noise_allows():
    train, test = planted()
    model = fit_recommender(train, Settings())
    biases = ResidualFit(train)
    alone = rmse(biases.base(test.rows, test.cols), test.values)
    convex = error_of(fit_recommender(train, Settings(corrective=False)), test)
    assert error_of(model, test) < 0.42 < convex < alone
    assert model.user_factors.shape[1] == 2
    assert model.result.gap <= 1e-2
    assert model.choice.held_out == pytest.approx(0.1 * train.values.size, rel=0.2)


def test_noise_has_no_factors():
    rng = np.random.default_rng(0)
    i, j = np.nonzero(rng.random((80, 60)) < 0.3)
    observed = Observed(i, j, rng.normal(size=i.size), (80, 60))
    model = fit_recommender(observed, Settings())
    whole = model.rate(*np.divmod(np.arange(4800), 60))
    assert np.std(whole) < 0.3
    assert np.sqrt(np.mean(np.square(whole))) < 0.3


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_the_scale_of_ratings_does_not_matter(factor):
    train, test = planted()
    one = fit_recommender(train, Settings())
    other = fit_recommender(train._replace(values=factor * train.values), Settings())
    assert other.sweeps == one.sweeps
    assert np.allclose(other.choice.table()[:, 0], one.choice.table()[:, 0])
    found = other.rate(test.rows, test.cols) / factor
    assert np.allclose(found, one.rate(test.rows, test.cols), rtol=1e-4)


def test_the_path_ends_where_it_does_not_help():
    train, _ = planted()
    found = choose(train, Settings(corrective=False), 0)
    errors = [tried.errors[0] for tried in found.path]
    assert errors[found.best] <= min(errors) * (1 + 1e-4)
    assert len(errors) - 1 - found.best in (1, 2)
    assert all(tried.sweeps == 0 for tried in found.path)
    radii = found.table()[:, 0]
    assert np.allclose(radii[1:] / radii[:-1], 1.6)
    assert found.biases > min(errors)
    given = choose(train, Settings(radius=0.7), 0)
    assert [tried.radius for tried in given.path] == [0.7]


def test_few_ratings_leave_no_choice():
    i, j = np.nonzero(np.ones((5, 4)))
    observed = Observed(i, j, np.arange(20) % 5 + 1.0, (5, 4))
    model = fit_recommender(observed, Settings())
    assert model.choice.path == ()
    assert model.sweeps == 0
    assert np.isfinite(model.rate(i, j)).all()
    big, _ = planted()
    assert fit_recommender(big, Settings(validation=0.0)).choice.held_out == 0


@pytest.mark.parametrize(
    ("i", "j"),
    [
        (np.zeros(150, int), np.arange(150)),
        (np.arange(150), np.zeros(150, int)),
        (np.arange(150), np.arange(150)),
        (np.array([0]), np.array([0])),
        (np.repeat([0, 1], [140, 1]), np.append(np.arange(140), 3)),
    ],
    ids=["one user", "one item", "nothing shared", "one rating", "uneven"],
)
@pytest.mark.parametrize("constant", [True, False])
def test_odd_files(i, j, constant):
    values = np.full(i.size, 4.0) if constant else 1.0 + np.arange(i.size) % 5
    model = fit_recommender(Observed(i, j, values, (i.max() + 1, j.max() + 1)), Settings())
    found = model.rate(i, j)
    assert np.isfinite(found).all()
    assert found.min() >= values.min()
    if constant:
        assert np.allclose(found, 4)


def test_new_rows_are_those_of_the_fit():
    train, _ = planted()
    model = fit_recommender(train, Settings())
    assert model.sweeps > 0
    whole = model.rate(*np.divmod(np.arange(80 * 60), 60)).reshape(80, 60)
    assert np.allclose(model.complete(train), whole)
    few = np.isin(train.rows, [3, 7])
    rows = np.searchsorted([3, 7], train.rows[few])
    some = Observed(rows, train.cols[few], train.values[few], (2, 60))
    assert np.allclose(model.complete(some), whole[[3, 7]])


def test_interrupted_sweeps_leave_the_convex_fit(monkeypatch):
    train, _ = planted()
    sweep, calls = FactorFit.sweep, []
    planned = fit_recommender(train, Settings())
    many = sum(len(tried.errors) - 1 for tried in planned.choice.path)

    def interrupted(self):
        calls.append(1)
        if len(calls) > many + 1:
            raise KeyboardInterrupt
        sweep(self)

    monkeypatch.setattr(FactorFit, "sweep", interrupted)
    model = fit_recommender(train, Settings())
    assert model.result.status is Status.INTERRUPTED
    assert model.sweeps == 0
    alone = rmse(model.rate(train.rows, train.cols), train.values)
    assert error_of(planned, train) < alone < train.values.std()


def test_threads_do_not_change_the_model():
    train, test = planted(users=300, items=250, share=0.6)
    assert train.values.size > 40_000
    parts = []
    for jobs in (1, 2):
        with threads.using(jobs):
            fit = start(train)
            for _ in range(3):
                fit.sweep()
            parts.append(fit.rate(test.rows, test.cols))
    assert np.allclose(*parts, rtol=1e-10)


def start(train, rank=3, **how):
    rng = np.random.default_rng(0)
    users, items = train.shape
    first = (rng.normal(size=(users, rank)), rng.normal(size=users))
    second = (rng.normal(size=(items, rank)), rng.normal(size=items))
    return FactorFit(train, float(train.values.mean()), first, second, 1.0, **how)


def test_without_biases_they_stay_zero():
    train, _ = planted()
    fit = start(train, biases=False)
    for _ in range(5):
        fit.sweep()
    assert np.abs(fit.users[1]).max() < 1e-50
    assert np.abs(fit.items[1]).max() < 1e-50


def test_a_sure_other_side_makes_ridge_regressions():
    """With item factors that are known exactly a user's factors solve a ridge regression."""
    train, _ = planted(users=12, items=9, share=0.8)
    fit = start(train)
    fit._items = fit._items._replace(M=fit._items.X[:, :, None] * fit._items.X[:, None, :])
    precision, noise, items = fit._users.precision.copy(), fit._noise, fit._items.X.copy()
    fit._half(fit._by_user, fit._users, fit._items)
    y = (train.values - fit.mean) / fit._unit
    for user in range(12):
        mine = train.rows == user
        q = items[train.cols[mine]]
        A, target = np.column_stack([q[:, :-1], np.ones(len(q))]), y[mine] - q[:, -1]
        stacked = np.vstack([A / np.sqrt(noise), np.diag(np.sqrt(precision))])
        slow = np.linalg.lstsq(stacked, np.append(target / np.sqrt(noise), np.zeros(4)))[0]
        assert np.allclose(fit._users.X[user], slow)


def test_sigma_is_the_expected_error():
    """Against many draws of the factors out of what is known of them."""
    train, _ = planted(users=12, items=9, share=0.8)
    fit = start(train)
    for _ in range(4):
        fit.sweep()
    rng, k = np.random.default_rng(0), fit.rank
    draws = []
    for side in (fit._users, fit._items):
        covariance = side.M - side.X[:, :, None] * side.X[:, None, :]
        roots = np.linalg.cholesky(covariance + 1e-12 * np.eye(k + 1))
        noise = rng.normal(size=(4000, *side.X.shape))
        draws.append(side.X + np.einsum("iab,sib->sia", roots, noise))
    P, Q = draws[0][:, train.rows], draws[1][:, train.cols]
    rated = np.sum(P[..., :k] * Q[..., :k], axis=2) + P[..., k] + Q[..., k]
    slow = np.mean((rated - (train.values - fit.mean) / fit._unit) ** 2)
    assert fit._noise == pytest.approx(slow, rel=0.02)


def test_vanished_directions_are_left_out():
    train, _ = planted()
    fit = start(train, rank=8)
    for _ in range(40):
        fit.sweep()
    assert fit.rank < 8
    assert fit.noise == pytest.approx(0.09, rel=0.4)


def test_command_and_estimator_fit_the_same_model(run, tmp_path):
    """The same ratings are held out, whether ids are numbers or text."""
    pd = pytest.importorskip("pandas")
    sklearn = pytest.importorskip("condgrad.sklearn")
    observed, _ = planted(users=30, items=25)
    frame = pd.DataFrame(
        {"user": observed.rows + 2, "item": observed.cols + 90, "rating": observed.values}
    ).sample(frac=1, random_state=0)
    frame.to_csv(tmp_path / "r.csv", index=False)
    out = tmp_path / "run.npz"
    args = ("solve", "matrix-completion", tmp_path / "r.csv", "--save", out, "--seed", 3)
    code, text, _ = run(*args)
    assert code == 0
    assert "seed 3 " in text  # as it was given
    for ids in (int, str):
        given = frame.astype({"user": ids, "item": ids})
        model = sklearn.MatrixCompletion(random_state=3).fit(given)
        with np.load(out) as saved:
            assert saved["model.users"].tolist() == model.user_ids_.astype(str).tolist()
            np.testing.assert_array_equal(saved["model.user_factors"], model.user_factors_)
            np.testing.assert_array_equal(saved["model.item_biases"], model.item_biases_)


def test_what_was_held_out_says_nothing_of_a_model_that_was_interrupted(monkeypatch):
    train, _ = planted()
    model = fit_recommender(train, Settings())
    assert facts_of(model)["validation_rmse"] == model.choice.chosen.errors[model.sweeps]

    def interrupted(self):
        raise KeyboardInterrupt

    whole = choose(train, Settings(), 0)
    monkeypatch.setattr("condgrad.applications.recommender.choose", lambda *_: whole)
    monkeypatch.setattr(FactorFit, "sweep", interrupted)
    broken = fit_recommender(train, Settings())
    assert broken.result.status is Status.INTERRUPTED
    assert facts_of(broken)["validation_rmse"] is None
