"""Runs go on from a checkpoint as if they had never stopped."""

import copy
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import condgrad as cg
import processes
from condgrad import InputError, Problem, ProblemError, Status, Term, applications, functions, maps
from condgrad.checkpoint import Reader
from condgrad.run.journal import Journal
from saving import CASES, alike, case, cut, graph, same_result, vectors
from stand_in import alike as on_stand_in

HERE = Path(__file__).parent
OPTIONS = {"seed": 3, "gap": 1e-9, "duals": True}


@pytest.fixture(autouse=True)
def disk(monkeypatch):
    """Nobody waits for it."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.mark.parametrize("name", CASES)
def test_a_saved_run_goes_on_bit_for_bit(name, tmp_path):
    problem, method = case(name)
    whole = cg.start(problem, method, **OPTIONS).advance(iterations=60)
    run = cg.start(copy.deepcopy(problem), method, **OPTIONS).advance(iterations=17)
    run.save(tmp_path / "run")
    again = cg.resume(tmp_path / "run", copy.deepcopy(problem))
    assert repr(again) == repr(run)
    alike(again.advance(iterations=43), whole)


def test_after_the_method_that_leads(tmp_path):
    problem, method = case("one method leads")
    run = cg.start(problem, method, **OPTIONS).advance(iterations=50)
    assert run._lead is None
    assert run.first is not None
    run.save(tmp_path / "run")
    again = cg.resume(tmp_path / "run", copy.deepcopy(problem)).advance(iterations=20)
    alike(again, run.advance(iterations=20))


PROGRAM = """
import sys
from saving import case
import condgrad as cg
problem, method = case(sys.argv[1])
run = cg.resume(sys.argv[2], problem, method).advance(iterations=20)
run.save(sys.argv[3])
"""


def test_in_another_process(tmp_path):
    name, (there, back) = "spdhg on triangles", (str(tmp_path / n) for n in ("there", "back"))
    problem, method = case(name)
    run = cg.start(problem, method, **OPTIONS).advance(iterations=17)
    run.save(there)
    paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    command = (sys.executable, "-c", PROGRAM, name, there, back)
    done = processes.run(*command, env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr
    alike(cg.resume(back, problem), run.advance(iterations=20))


def test_on_a_gpu(monkeypatch, tmp_path):
    with on_stand_in(monkeypatch):
        for method in (cg.spdhg(), cg.sag_cgal()):
            problem = applications.sparsest_cut(graph(20)).problem
            run = cg.start(problem, method, device="cuda", gap=1e-6).advance(iterations=6)
            run.save(tmp_path / "run")
            again = cg.resume(tmp_path / "run", problem).advance(iterations=6)
            assert type(again.state.W.array) is type(run.state.W.array)
            same_result(again.result(), run.advance(iterations=6).result())


def test_arrays_that_share_memory_share_it_again(tmp_path):
    near = Term(maps.AllEntries((4, 4)), functions.Squared(np.arange(16.0)))
    problem = Problem(cg.domains.Spectrahedron(4), [near, *cut(4).composite])
    run = cg.start(problem, cg.sag_cgal()).advance(iterations=3)
    assert np.shares_memory(run.state.v, run.state.terms[0].state.G)
    run.save(tmp_path / "run")
    again = cg.resume(tmp_path / "run", problem)
    assert np.shares_memory(again.state.v, again.state.terms[0].state.G)
    assert again.state.control is again._control.state


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
    path, (problem, method) = tmp_path / "run", case("sparse tables")
    cg.start(problem, method).advance(iterations=4).save(path)
    whole = path.read_bytes()
    assert Reader(path).check() is None
    places = Reader(path)._blocks
    inside = [at + stored // 2 for at, stored, *_ in places if stored]
    ends = [at + stored - 1 for at, stored, *_ in places if stored]
    text = np.linspace(max(ends) + 64, len(whole) - 1, 20).astype(int).tolist()
    for at in [*range(0, 60, 3), *inside, *ends, *text]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(InputError, match=r"damaged|no checkpoint"):
            cg.resume(path, problem)
    for length in (0, 10, 63, 64, 200, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"damaged|no checkpoint"):
            cg.resume(path, problem)


def test_what_a_file_says_is_never_called_or_trusted(tmp_path):
    """Descriptions that were changed, with their checksums made right again."""
    from condgrad.checkpoint import write
    from condgrad.checkpoint.arrays import Memory

    path, problem = tmp_path / "run", vectors()
    cg.start(problem).advance(iterations=2).save(path)
    reader = Reader(path)
    blocks = [reader.block(i) for i in range(len(reader._blocks))]
    memory = [Memory(b.ctypes.data, b.ctypes.data + b.nbytes, [b]) for b in blocks]
    text = json.dumps({k: v for k, v in reader.text.items() if k != "blocks"})
    assert "condgrad.run.state:RunState" in text
    changes = {
        "condgrad.run.state:RunState": "os:system",
        '"object"': '"__class__"',
        '"condgrad.run.monitor:Monitor"': '"condgrad.run.monitor:np"',
        '"terms"': '"none such"',
        '"<f8"': '"|O"',
        "[40]": "[4000000000]",
    }
    for old, new in changes.items():
        assert old in text, old
        write(path, json.loads(text.replace(old, new)), memory)
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
    class Own(cg.estimators.Full):
        def init(self, term, problem):
            state = super().init(term, problem)
            state.own = lambda: None
            return state

    fit = Term(maps.Inner([1.0, 2.0]), functions.Linear(), name="cost")
    problem = Problem(cg.domains.Simplex(2), [fit])
    method = cg.hcgm().override({"cost": Own()})
    with pytest.raises(ProblemError, match=r"state\.own is a builtins\.function"):
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
