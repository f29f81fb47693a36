"""Executors: the same bytes wherever steps are run, and what becomes of workers that die, lack something or differ."""

import json

import pytest

import headcount as hc
from headcount.studies.executors.in_process import in_process
from planted_copying import records

SMALLEST = {
    "heads-kept": (["ioi"], {"n": 8, "points": 3, "draws": 1, "orders": ["absolute", "chance"], "method": "one-pass"}),
    "edges-kept": (["ioi"], {"n": 8, "points": 3, "draws": 1, "orders": ["absolute"], "method": "eap"}),
    "head-roles": (["syntax"], {"n": 8, "test": 2, "seeds": 1, "updates": 1, "batch": 2, "ks": [1]}),
    "masked-heads": (
        ["retrieval"],
        {"n": 24, "seeds": 1, "shuffles": 1, "epochs": 1, "ks": [1], "draws": 1, "new_tokens": 2, "alphas": [1.0]},
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


def questions(place):
    file = place / "parts.json"
    if not file.exists():
        file.write_text(json.dumps(records()))
    return str(file)


def curves(name, place):
    return (place / name / "curves.csv").read_bytes()


@pytest.fixture
def cache(tmp_path, monkeypatch, no_figures):
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
        for kind in ("kept", "head_roles", "masked_heads"):
            patch.setattr(f"headcount.studies.{kind}.outputs.save_figure", lambda figure, folder, name="": None)
        for name in SMALLEST:
            assert run(name, place).computed
    return {name: curves(name, place) for name in SMALLEST}


@pytest.fixture(scope="module")
def cluster():
    """Two nodes, each with a GPU that is not there."""
    import ray as package
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1, num_gpus=1)
    package.init(address=made.address, logging_level="ERROR", log_to_driver=False)
    yield made
    package.shutdown()
    made.shutdown()


def all_the_same(executor, place, expected):
    with executor:
        for name in SMALLEST:
            result = run(name, place, executor)
            assert result.computed
            assert result.cached == 0
            assert curves(name, place) == expected[name], name
        assert run("head-roles", place, executor).computed == 0, "all is found again"


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_of_this_machine_give_the_same_bytes(workers, in_one_process, cache, tmp_path):
    all_the_same(hc.executor("local", workers=workers), tmp_path, in_one_process)


def test_a_ray_cluster_gives_the_same_bytes(cluster, in_one_process, cache, tmp_path):
    all_the_same(hc.executor("ray"), tmp_path, in_one_process)


def test_slurm_gives_the_same_bytes(in_one_process, cache, tmp_path):
    all_the_same(hc.executor("slurm", workers=1, cluster="local"), tmp_path, in_one_process)
