"""Executors: the same bytes wherever steps are run, and what becomes of workers that die, lack something or differ."""

import json
import os
import resource
import shutil
import sys
from typing import get_args, get_type_hints

import pytest
import submitit  # noqa: F401 its logger keeps the stdout of its first import, which must outlive a test
from pydantic import TypeAdapter
from typing_extensions import is_typeddict

import headcount as hc
from campaigns import workers
from forked import FORKED, Worker
from headcount.core.cache import Store
from headcount.core.registry import resolve
from headcount.studies import plan
from headcount.studies.bench import Bench
from headcount.studies.executors import hand, local, ray, schedule
from headcount.studies.executors.errand import Errand
from headcount.studies.executors.in_process import in_process
from headcount.studies.runner import plan_study
from headcount.studies.study import read_study
from pictures import leave_out_pictures
from planted_copying import records

SMALLEST = {
    "heads-kept": (
        ["ioi"],
        {"n": 8, "points": 3, "draws": 1, "repeats": 2, "orders": ["absolute", "chance"], "method": "one-pass"},
    ),
    "edges-kept": (["ioi"], {"n": 8, "points": 3, "draws": 1, "orders": ["absolute"], "method": "eap"}),
    "head-roles": (["syntax"], {"n": 8, "test": 2, "seeds": 1, "updates": 1, "batch": 2, "ks": [1]}),
    "masked-heads": (
        ["retrieval"],
        {"n": 12, "seeds": 1, "shuffles": 1, "epochs": 1, "ks": [1], "draws": 1, "new_tokens": 2, "alphas": [1.0]},
    ),
}


def run(name, place, executor=in_process, model="tiny", **more):
    tasks, asked = SMALLEST[name]
    if name == "masked-heads":
        asked = {**asked, "questions": questions(place.parent), "comet": "no"}
    out = place / name
    return hc.run(
        name, models=[model], tasks=tasks, overrides={**asked, **more}, out=out, executor=executor, quiet=True
    )


@pytest.mark.parametrize("name", [*SMALLEST, "attention-edges-kept"])
def test_settings_of_steps_are_what_their_functions_say_also_as_json(name, tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "PART", 2**6)  # sweeps have parts
    tasks, asked = SMALLEST.get(name, (["ioi"], {"n": 8, "method": "learned", "updates": 1}))
    more = {
        "heads-kept": {"orders": ["best", "chance"], "search": True, "controls": ["nonsense", "shuffled"]},
        "masked-heads": {"method": "copy", "questions": questions(tmp_path), "comet": sys.executable},
    }
    study = read_study(name, models=["tiny"], tasks=tasks, overrides={**asked, **more.get(name, {})})
    steps = plan_study(study, Bench(names=study.models)).plan.steps
    assert steps
    for step in steps:
        _, kind = get_args(get_type_hints(resolve(step.function))["job"])
        read = TypeAdapter(kind).validate_json(json.dumps(step.settings), strict=True, extra="forbid")
        assert is_typeddict(kind)
        assert read == step.settings, step.label


def questions(place):
    file = place / "parts.json"
    if not file.exists():
        file.write_text(json.dumps(records()))
    return str(file)


def curves(name, place):
    return (place / name / "curves.csv").read_bytes()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    leave_out_pictures(monkeypatch)

    def fresh(name):
        monkeypatch.setenv("HEADCOUNT_CACHE", str(tmp_path / f"cache-{name}"))
        return tmp_path / f"cache-{name}"

    fresh("")
    return fresh


@pytest.fixture(scope="module")
def in_one_process(tmp_path_factory):
    """curves.csv of the four studies."""
    place = tmp_path_factory.mktemp("in-one-process")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADCOUNT_CACHE", str(place / "cache"))
        leave_out_pictures(patch)
        for name in SMALLEST:
            assert run(name, place).computed
    return {name: curves(name, place) for name in SMALLEST}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two nodes, each with a GPU that is not there, and with a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADCOUNT_CACHE", str(tmp_path_factory.mktemp("nodes")))
        made = workers.cluster(spare=False)
    yield made
    workers.shut_down(made)


def all_the_same(executor, place, expected):
    with executor:
        for name in SMALLEST:
            result = run(name, place, executor)
            assert result.computed
            assert result.cached == 0
            assert curves(name, place) == expected[name], name
        assert run("head-roles", place, executor).computed == 0, "all is found again"


def test_one_other_process_gives_the_same_bytes(in_one_process, cache, tmp_path):
    """Started as users get it; it has to do every step."""
    all_the_same(hc.executor("local", workers=1), tmp_path, in_one_process)


def test_two_processes_of_this_machine_give_the_same_bytes(in_one_process, cache, tmp_path, monkeypatch):
    monkeypatch.setattr(local.subprocess, "Popen", Worker)
    all_the_same(hc.executor("local", workers=2), tmp_path, in_one_process)


def test_workers_that_stay_are_told_of_another_cache(folder, cache, tmp_path, monkeypatch):
    monkeypatch.setattr(local.subprocess, "Popen", Worker)
    with hc.executor("local", workers=1) as executor:
        first = run("heads-kept", tmp_path, executor, model=folder)
        cache("another")
        assert run("heads-kept", tmp_path, executor, model=folder).computed == first.computed


def test_a_ray_cluster_gives_the_same_bytes_also_where_it_does_not_see_the_cache_and_a_worker_is_killed(
    cluster, in_one_process, cache, tmp_path, monkeypatch
):
    """One of two workers shares the driver's cache; the other is sent steps, and sends results. Then one is killed."""
    told, seen = [], set()

    def setup(*about):
        told.append(about)
        own = hand.setup_of(*about)
        return own if len(told) == 1 else {**own, "store": str(tmp_path / "nowhere")}

    def killed(executor, worker, errand):
        seen.update(executor._shares.values())
        begin(executor, worker, errand)
        if "chance" in errand.label and not struck:
            struck.append(worker)
            executor.ray.kill(executor._actors[worker])

    struck, begin = [], ray.OnRay.begin
    monkeypatch.setattr(ray, "setup_of", setup)
    monkeypatch.setattr(ray.OnRay, "begin", killed)
    all_the_same(hc.executor("ray"), tmp_path, in_one_process)
    assert seen == {True, False}
    assert len(struck) == 1
    assert len(told) == 3, "another has taken the place of the one that was killed"


def test_slurm_gives_the_same_bytes(in_one_process, cache, tmp_path):
    all_the_same(hc.executor("slurm", workers=1, cluster="local"), tmp_path, in_one_process)


@pytest.mark.parametrize(("on", "package"), [("ray", "ray"), ("slurm", "submitit")])
def test_what_is_not_installed_is_named(on, package, headcount, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    code, _, said = headcount("run", "heads-kept", "--on", on)
    assert code == 2
    assert f"pip install 'headcount[{on}]'" in said


def test_a_cluster_that_does_not_answer_is_told_at_once(headcount):
    code, _, said = headcount("run", "heads-kept", "--on", "ray", "--ray-address", "127.0.0.1:1")
    assert code == 2
    assert "No Ray cluster answers at 127.0.0.1:1" in said


def test_slurm_says_what_it_would_be_given_and_where_it_is_not(headcount, cache, tmp_path):
    code, out, _ = headcount(
        "run", "heads-kept", "--on", "slurm", "--dry-run", "--workers", 3, "--partition", "long", "--gpus", 2
    )
    assert code == 0
    for line in ("--array=0-2%3", "--partition=long", "--gpus-per-node=2", "--time=240"):
        assert f"#SBATCH {line}\n" in out
    with pytest.raises(hc.HeadcountError, match="no sbatch on this machine"):
        run("heads-kept", tmp_path, "slurm")


def test_options_of_other_places_are_refused(headcount):
    code, _, said = headcount("run", "heads-kept", "--workers", 2)
    assert (code, "--workers goes with --on" in said) == (2, True)
    code, _, said = headcount("run", "heads-kept", "--on", "local", "--partition", "long")
    assert (code, "local takes no partition" in said) == (2, True)
    with pytest.raises(hc.HeadcountError, match="no executor 'rya'. Did you mean 'ray'"):
        hc.run("heads-kept", executor="rya")
    with pytest.raises(hc.HeadcountError, match="loader of its own"):
        hc.run("heads-kept", executor="local", loader=lambda name: None)


@pytest.fixture
def first_errand(folder, cache, tmp_path):
    """A first step of a study of a model folder that is the test's own, ready to be sent; and a worker."""
    model = tmp_path / "model"
    shutil.copytree(folder, model)
    tasks, asked = SMALLEST["heads-kept"]
    study = read_study("heads-kept", models=[str(model)], tasks=tasks, overrides=asked)
    step = plan_study(study, Bench(names=study.models)).plan.steps[0]
    sent = json.loads(json.dumps(Errand.of(step).plain()))
    return model, sent, hand.Hand(hand.setup_of(Store(), study.models))


def test_an_errand_is_the_same_after_it_was_sent(first_errand):
    _, sent, _ = first_errand
    assert json.loads(json.dumps(Errand.parse(sent).plain())) == sent


def test_a_worker_without_the_files_of_the_model_says_so(first_errand):
    model, sent, worker = first_errand
    shutil.rmtree(model)
    answer = worker.do(sent)
    assert answer["kind"] == "refused"
    assert f"There is no model folder at {model}" in answer["words"]
    assert os.uname().nodename in answer["words"], "where"


def test_a_worker_with_other_versions_or_other_code_says_so(first_errand):
    _, sent, worker = first_errand
    told = sent["description"]
    other = {**sent, "description": {**told, "versions": {**told["versions"], "torch": "1.0"}}}
    assert "planned with torch 1.0, and a worker has" in worker.do(other)["words"]
    assert "other source code" in worker.do({**sent, "description": {**told, "source": "another"}})["words"]
    assert "cannot run the step" in worker.do({**sent, "function": "not_there:step"})["words"]
    assert worker.do(sent)["kind"] == "done"


def test_a_full_disk_on_a_node_ends_the_study_in_one_sentence_and_keeps_what_is_finished(first_errand, tmp_path):
    _, sent, worker = first_errand

    def limited(place):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
        place.write_text(worker.do(sent)["words"])

    process = FORKED.Process(target=limited, args=(tmp_path / "said",))
    process.start()
    process.join(60)
    words = (tmp_path / "said").read_text()
    assert "may not grow so large" in words
    assert "Finished steps are kept" in words
    assert worker.store.folder.exists()
    assert not worker.store.has(sent["key"])


class Troubled:
    """A crew of two that computes here, and does to some steps what it is told."""

    several = True

    def __init__(self, bench, store, trouble):
        self.bench, self.store, self.trouble, self.given, self.order = bench, store, trouble, {}, []

    def idle(self):
        return [name for name in ("one", "two") if name not in self.given]

    def begin(self, worker, errand):
        self.given[worker] = errand
        self.order.append(errand.label)

    def news(self):
        from headcount.studies.executors.crew import News

        worker, errand = self.given.popitem()
        kind = self.trouble(errand.label, self.order.count(errand.label))
        if kind is None:
            errand.run(self.bench, self.store, lambda paid: None, lambda words: None)
        return [News(worker, "paid", paid=1.0), News(worker, kind or "done", "the reason")]

    def close(self):
        pass


def troubled(trouble, tmp_path, folder):
    crews = []

    def executor(plan, bench, store, bar, ledger, before):
        from headcount.studies.executors.crew import Here

        crews.append(Troubled(bench, store, trouble))
        return schedule.Schedule(plan, crews[-1], Here(bench, store, bar), bar, ledger, before).run()

    return run("heads-kept", tmp_path, executor, model=folder), crews[0].order


def test_lost_steps_are_tried_again_and_refused_ones_are_not(folder, cache, tmp_path):
    lost = lambda label, time: "lost" if "chance" in label and time < 3 else None
    result, order = troubled(lost, tmp_path, folder)
    assert sum("chance" in label for label in order) == 3
    assert len(set(order)) == len(order) - 2 == result.computed

    cache("refused")
    with pytest.raises(hc.HeadcountError, match="the reason"):
        troubled(lambda label, time: "refused" if "absolute" in label else None, tmp_path, folder)
    kept = [entry.label for entry in Store().entries()]
    assert any("attribution" in label for label in kept), "finished steps are kept"

    cache("lost for ever")
    with pytest.raises(hc.HeadcountError, match=f"has lost {schedule.TRIES} workers"):
        troubled(lambda label, time: "lost" if "absolute" in label else None, tmp_path, folder)
    cache("failed")
    with pytest.raises(schedule.WorkerError, match="the reason"):
        troubled(lambda label, time: "failed", tmp_path, folder)


def test_a_driver_that_is_killed_and_started_again_computes_nothing_twice(folder, cache, tmp_path, monkeypatch):
    monkeypatch.setattr(local.subprocess, "Popen", Worker)
    assert workers.driver_kills(1, tmp_path, folder, "local", say=lambda words: None, tasks=["ioi"]) == []


@pytest.mark.parametrize(("threads", "said"), [(2, 0), (3, 1)])
def test_local_workers_keep_the_drivers_threads_and_only_a_crowd_is_worth_a_word(threads, said, monkeypatch):
    told = []
    monkeypatch.setattr(local, "say", told.append)
    monkeypatch.setattr(local, "cores_here", lambda: 2)
    monkeypatch.setattr(local.torch, "get_num_threads", lambda: threads)
    assert local.Local().workers == 1
    assert local.Local(2).workers == 2
    assert len(told) == said
