"""Runs go on from a checkpoint as if they had never stopped."""

import json
import os
import signal
import sys
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pytest

import condgrad as cg
import processes
from condgrad import InputError, ProblemError, Status, Term, applications, functions, maps
from condgrad.datasets import load
from condgrad.methods.table1 import Followed
from condgrad.points.factored import Factored
from condgrad.run import files
from condgrad.run.files import Pack
from condgrad.run.journal import Journal
from saving import (
    CASES,
    alike,
    case,
    cut,
    graph,
    same,
    same_result,
    text_in,
    vectors,
    with_text,
)
from stand_in import alike as on_stand_in

HERE = Path(__file__).parent
OPTIONS = {"seed": 3, "gap": 1e-9, "duals": True}


@pytest.fixture(autouse=True)
def disk(monkeypatch):
    """Nobody waits for it."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def begun(name):
    problem, method = case(name)
    return cg.start(problem, method, **OPTIONS)


def test_every_method_is_saved():
    slugs = {case(name)[1].slug for name in CASES if case(name)[1] is not None}
    assert slugs >= set(cg.METHODS)


@pytest.mark.parametrize("name", CASES)
def test_a_saved_run_goes_on_bit_for_bit(name, tmp_path):
    whole, run, last = begun(name).advance(iterations=60), begun(name), 0
    for k in (0, 1, 17, 40):
        if k:
            run.advance(iterations=k - last)
        run.save(tmp_path / "run")
        again, last = cg.resume(tmp_path / "run", case(name)[0]), k
        assert repr(again) == repr(run)
        same(again.state, run.state, "state")
        alike(again.advance(iterations=60 - k), whole)


@pytest.mark.parametrize("name", CASES)
def test_the_fields_of_a_state_are_all_that_steps_read(name, tmp_path):
    """A state made of its fields alone, in a run that never stepped, steps like the other."""
    run, other = begun(name).advance(iterations=17), begun(name)
    files.save(tmp_path / "state", [Pack.of(run.state, "state")])
    found = files.load(tmp_path / "state")[0].tree(tmp_path / "state")
    own = {f.name: getattr(found, f.name) for f in fields(found)}
    assert own.keys() >= vars(run.state).keys()
    state, twin = run.state, type(found)(**own)
    for _ in range(12):
        state = run.form.step(run.problem, state)
        twin = other.form.step(other.problem, twin)
        same(twin, state, "state")


@pytest.mark.parametrize("name", ["spdhg on triangles", "h-sag-v2 on vectors", "pdhg on a box"])
def test_a_look_changes_nothing(name):
    whole, run = begun(name).advance(iterations=60), begun(name)
    for _ in range(4):
        one, two = run.advance(iterations=15).result(), run.result()
        same_result(one, two)
    alike(run, whole)


PROGRAM = """
import sys
from saving import case
import condgrad as cg
for name in sys.argv[2:]:
    path = f"{sys.argv[1]}/{name}"
    cg.resume(path, *case(name)).advance(iterations=20).save(path)
"""


def program(*args):
    paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    return processes.run(sys.executable, "-c", *args, env={**os.environ, "PYTHONPATH": paths})


def test_in_another_process(tmp_path):
    runs = {name: begun(name).advance(iterations=17) for name in CASES}
    for name, run in runs.items():
        run.save(tmp_path / name)
    done = program(PROGRAM, str(tmp_path), *CASES)
    assert done.returncode == 0, done.stderr
    for name, run in runs.items():
        alike(cg.resume(tmp_path / name, case(name)[0]), run.advance(iterations=20))


UNNAMED = """
import sys
import condgrad as cg
from condgrad.datasets import load
problem = cg.applications.sparsest_cut(load("embedded/karate")).problem
cg.resume(sys.argv[1], problem).advance(iterations=20).save(sys.argv[1])
"""


def test_in_another_process_that_does_not_name_the_method(tmp_path):
    """The default, of which the class is in the file alone."""
    problem, path = applications.sparsest_cut(load("embedded/karate")).problem, tmp_path / "run"
    run = cg.start(problem, cg.spdhg(batch=0.1)).advance(iterations=7)
    run.save(path)
    done = program(UNNAMED, str(path))
    assert done.returncode == 0, done.stderr
    alike(cg.resume(path, problem), run.advance(iterations=20))


KILLED = """
import os, signal, sys
import condgrad as cg
from saving import case
kill = lambda info: info.k > 23 and os.kill(os.getpid(), signal.SIGKILL)
problem, method = case(sys.argv[2])
cg.solve(problem, method, max_iter=40, checkpoint=sys.argv[1], every=0, callbacks=[kill])
"""


@pytest.mark.parametrize("name", ["spdhg on triangles", "compiled loop"])
def test_a_process_that_is_killed_goes_on_bit_for_bit(name, tmp_path):
    """Those of every method are in `faults/test_kills.py`."""
    (problem, method), path = case(name), tmp_path / "run"
    assert program(KILLED, str(path), name).returncode == -signal.SIGKILL
    how = {"max_iter": 40, "callbacks": [lambda info: None]}
    found = cg.solve(problem, method, resume=path, **how)
    assert found.resumed == 23
    same_result(found, cg.solve(problem, method, **how))


def test_on_a_gpu(monkeypatch, tmp_path):
    with on_stand_in(monkeypatch):
        for method in (cg.spdhg(), cg.sag_cgal()):
            problem = applications.sparsest_cut(graph(20)).problem
            run = cg.start(problem, method, device="cuda", gap=1e-6).advance(iterations=6)
            run.save(tmp_path / "run")
            again = cg.resume(tmp_path / "run", problem).advance(iterations=6)
            assert type(again.state.W) is type(run.state.W)
            same_result(again.result(), run.advance(iterations=6).result())


def test_an_array_that_is_there_twice_is_one_again_and_overlaps_are_refused(tmp_path):
    path, a = tmp_path / "tree", np.arange(6.0)
    files.save(path, [Pack.of([a, {"again": a}], "tree")])
    one, two = files.load(path)[0].tree(path)
    assert two["again"] is one
    with pytest.raises(ProblemError, match=r"tree\[.\] and tree\[.\] overlap"):
        Pack.of([a, a[2:]], "tree")


def test_numbers_and_arrays_of_any_layout_come_back(tmp_path):
    path, a = tmp_path / "tree", np.arange(24.0).reshape(4, 6)
    arrays = [a.copy(), np.asfortranarray(a), a[:, 1:4].copy(), a.T.copy(), a[::2].copy("F")]
    arrays += [np.zeros((0, 3)), np.float32(a), a > 3, np.array(2.5), a.astype("U4"), a[::-1, ::2]]
    numbers = [1, 2**80, 0.1, np.nan, -np.inf, np.float32(0.1), np.float64(2), True, "ω"]
    tree = {
        "W": Factored(np.ones((3, 1)), [2.0], np.ones((4, 1))),
        "arrays": arrays,
        "numbers": numbers,
        3: (None, np.dtype("f4"), Status.LOST),
    }
    files.save(path, [Pack.of(tree, "tree")])
    found = files.load(path)[0].tree(path)
    same(found, tree, "tree")
    order = [(x.flags.c_contiguous, x.flags.f_contiguous) for x in arrays[:5]]
    assert [(x.flags.c_contiguous, x.flags.f_contiguous) for x in found["arrays"][:5]] == order


def killed_after(saves, monkeypatch):
    """End a checkpointed call, so to speak, right after so many checkpoints."""
    save, count = Journal.save, [0]

    def counted(journal):
        save(journal)
        count[0] += 1
        if count[0] == saves:
            raise SystemExit

    monkeypatch.setattr(Journal, "save", counted)


def test_solve_goes_on_and_counts_its_limits_from_the_beginning(tmp_path, monkeypatch):
    problem, path = vectors(), tmp_path / "run"
    how = {"method": cg.sag_fw(batch=3), "max_epochs": 20, "callbacks": [lambda info: None]}
    whole = cg.solve(problem, **how)
    with monkeypatch.context() as patch:
        killed_after(40, patch)
        with pytest.raises(SystemExit):
            cg.solve(problem, checkpoint=path, every=0, **how)
    assert cg.resume(path, problem, callbacks=how["callbacks"]).state.k == 40
    same_result(cg.solve(problem, resume=path, **how), whole)
    longer = {**how, "max_epochs": 25}  # the file has the end of the run now
    same_result(
        cg.solve(problem, checkpoint=path, resume=True, **longer), cg.solve(problem, **longer)
    )


def test_an_interrupted_run_keeps_its_last_checkpoint(tmp_path):
    problem, path = cut(), tmp_path / "run"

    def interrupt(info):
        if info.k == 8:
            raise KeyboardInterrupt

    found = cg.solve(problem, max_iter=20, checkpoint=path, every=0, callbacks=[interrupt])
    assert found.status is Status.INTERRUPTED
    same_result(cg.solve(problem, max_iter=20, resume=path), cg.solve(problem, max_iter=20))


def test_an_interruption_while_the_last_checkpoint_is_written_leaves_the_answer(
    tmp_path, monkeypatch
):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("condgrad.run.files.save", interrupt)
    found = cg.solve(cut(), max_iter=20, checkpoint=tmp_path / "run", every=1e9)
    assert (found.status, found.iterations) == (Status.INTERRUPTED, 20)


def test_another_problem_method_or_option_is_refused(tmp_path):
    problem, path = case("h-sag-v2 on triangles")[0], tmp_path / "run"
    how = {"method": cg.h_sag_v2(batch=50), "max_iter": 5, "gap": 1e-3}
    cg.solve(problem, checkpoint=path, **how)
    other = applications.sparsest_cut(1.5 * graph(14)).problem
    with pytest.raises(InputError, match=r"something else: problem.* other numbers"):
        cg.solve(other, resume=path, **how)
    with pytest.raises(InputError, match=r"problem\..*shape"):
        cg.resume(path, cut(13))
    with pytest.raises(InputError, match=r"method.*batch is 60 here and was 50"):
        cg.solve(problem, resume=path, **{**how, "method": cg.h_sag_v2(batch=60)})
    with pytest.raises(InputError, match=r"gap is 0\.01 here and was 0\.001"):
        cg.solve(problem, resume=path, **{**how, "gap": 1e-2})
    with pytest.raises(InputError, match="seed is 1 here and was 0"):
        cg.solve(problem, resume=path, seed=1, **how)
    with pytest.raises(ProblemError, match="there is no checkpoint"):
        cg.solve(problem, resume=tmp_path / "none", **how)
    with pytest.raises(InputError, match="another call"), cg.checkpoints(resume=path):
        cg.max_cut(graph(9))


def test_another_version_is_refused(tmp_path, monkeypatch):
    run, path = cg.start(vectors()), tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(cg, "__version__", "0.0.1")
        run.save(path)
    with pytest.raises(InputError, match=r"of condgrad 0\.0\.1, and this is"):
        cg.resume(path, vectors())
    path.write_bytes(b"PK" + bytes(100))
    with pytest.raises(InputError, match="no checkpoint of condgrad"):
        cg.resume(path, vectors())


def test_damage_anywhere_is_refused(tmp_path):
    path, (problem, method) = tmp_path / "run", case("float32 tables")
    cg.start(problem, method).advance(iterations=4).save(path)
    whole = path.read_bytes()
    at = [*range(0, 60, 3), *np.linspace(60, len(whole) - 1, 60).astype(int).tolist()]
    for i in at:
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 4]) + whole[i + 1 :])
        with pytest.raises(InputError, match=r"damaged|no checkpoint"):
            cg.resume(path, problem)
    for length in (0, 10, 21, 30, 64, 200, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"damaged|no checkpoint"):
            cg.resume(path, problem)


def test_what_a_file_says_is_never_called_or_trusted(tmp_path):
    """Descriptions that were changed, with their checksums made right again."""
    path, problem = tmp_path / "run", vectors()
    cg.start(problem, cg.hcgm()).advance(iterations=2).save(path)
    raw = path.read_bytes()
    text = json.dumps(text_in(raw))
    changes = {
        "condgrad.methods.table1:TableOneState": "os:system",
        '"object"': '"__class__"',
        '"condgrad.run.monitor:Record"': '"condgrad.run.monitor:Monitor"',
        '"terms"': '"none such"',
        '"<f8"': '"|O"',
        '"PCG64"': '"default_rng"',
        "[40]": "[4000000000]",
    }
    for old, new in changes.items():
        assert old in text, old
        path.write_bytes(with_text(raw, json.loads(text.replace(old, new))))
        with pytest.raises(InputError, match=r"damaged|something else"):
            cg.resume(path, problem)


def test_a_file_that_cannot_be_written_costs_a_warning(tmp_path, monkeypatch):
    problem, path = vectors(), tmp_path / "run"
    cg.solve(problem, max_iter=5, checkpoint=path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left.*the run goes on"):
        found = cg.solve(problem, max_iter=10, checkpoint=path)
    assert found.iterations == 10
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["run"]
    with pytest.raises(ProblemError, match="cannot be written"):
        cg.solve(problem, checkpoint=tmp_path / "none" / "run")
    with pytest.raises(ProblemError, match="every is -1"):
        cg.solve(problem, checkpoint=path, every=-1)


def test_what_a_checkpoint_cannot_hold_is_refused_at_the_start(tmp_path):
    @dataclass
    class Mine(Followed):
        own: int = 0

    class Own(cg.methods.Full):
        def begin(self, term, problem):
            return Mine(super().begin(term, problem).G)

    fit = Term(maps.Inner([1.0, 2.0]), functions.Linear(), name="cost")
    problem = cg.Problem(cg.domains.Simplex(2), [fit])
    method = cg.hcgm().override({"cost": Own()})
    with pytest.raises(ProblemError, match=r"run\['state'\]\.terms\[0\] is a .*Mine"):
        cg.solve(problem, method, checkpoint=tmp_path / "run")
    cg.solve(problem, method, max_iter=3)


def test_nested_calls_are_no_stages(tmp_path):
    inner = []

    def callback(info):
        inner.append(cg.solve(vectors(), max_iter=2).iterations)

    path = tmp_path / "run"
    with cg.checkpoints(path):
        one = cg.solve(vectors(), max_iter=3, callbacks=[callback])
        two = cg.solve(cut(), max_iter=3)
        with pytest.raises(ProblemError, match="leave it out there"):
            cg.solve(vectors(), checkpoint=path)
    with cg.checkpoints(resume=path):
        same_result(cg.solve(vectors(), max_iter=3, callbacks=[callback]), one)
        same_result(cg.solve(cut(), max_iter=3), two)
    assert inner == [2, 2, 2]


def test_a_run_that_cannot_begin_is_a_stage_too(tmp_path):
    """As where one does not fit into the memory, and another takes its place."""
    path = tmp_path / "run"

    def call():
        with pytest.raises(ProblemError, match="start has shape"):
            cg.solve(cut(), start=np.eye(3))
        return [cg.solve(problem, max_iter=4) for problem in (vectors(), cut())]

    with cg.checkpoints(path):
        one = call()
    with cg.checkpoints(resume=path):
        two = call()
    for a, b in zip(one, two, strict=True):
        same_result(a, b)
