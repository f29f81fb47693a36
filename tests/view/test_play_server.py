"""The switchboard over its server: right answers for all at once, what is dropped and refused, and how it ends."""

import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

import forked
import headcount as hc
from asked_boards import PROMPT, playing, post
from families import tiny
from headcount.edit import head_name
from headcount.rank.scores import HeadScores
from headcount.studies.study import read_study
from headcount.view.play.app import App
from headcount.view.play.state import Asked, State
from headcount.view.play.worker import Job, OvertakenError
from headcount.view.server import TOKEN_HEADER


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    with playing(hc.load("tiny"), results=None, studies=tmp_path_factory.mktemp("studies")) as made:
        yield made


def test_fifty_clients_at_once_get_each_their_own_right_answer():
    """Prompts, cuts and fills of their own; every answer is the one that Python gives with the same model at the same
    time, and none is another's."""
    model = tiny("llama-gqa")
    generator = torch.Generator().manual_seed(0)
    asked = []
    for client in range(50):
        ids = torch.randint(3, 64, (2, 6 + client % 4), generator=generator).tolist()
        cut = [head_name(divmod(int(place), 4)) for place in torch.randperm(12, generator=generator)[: 1 + client % 7]]
        fill = ("zero", "counterfactual", "scale(0.5)")[client % 3]
        asked.append({"prompt": ids[0], "other": ids[1], "cut": cut, "fill": fill})
    with playing(model, results=None) as board, ThreadPoolExecutor(50) as pool:
        answer = lambda place: post(board, "answer", client=f"c{place}", id=place, state=asked[place % 50])
        answers = pool.map(answer, range(100))
        for place, said in enumerate(answers):
            state = asked[place % 50]
            assert said["id"] == place
            assert [token["id"] for token in said["tokens"]] == state["prompt"]
            ids, other = torch.tensor([state["prompt"]]), torch.tensor([state["other"]])
            with torch.no_grad(), hc.cut(model, state["cut"], state["fill"], other=other):
                logits = model.last_logits(ids, torch.tensor([ids.shape[1] - 1]))[0]
            shares = logits.double().softmax(-1)
            assert all(row["cut"] == float(shares[row["id"]]) for row in said["rows"])
        theirs, ours = (list(each.hf.parameters()) for each in (board._app.model, model))
    assert all(one.data_ptr() == other.data_ptr() for one, other in zip(theirs, ours, strict=True))


def test_python_that_is_copied_gives_the_same_numbers(board):
    pair = post(board, "pairs", task="ioi", seed=3)["states"][1]
    for fill, positions in (
        ("counterfactual", "all"),
        ("mean-global", "all"),
        ("mean", "all"),
        ("resample", "last"),
        ("scale(0.25)", "generated"),
        ("zero", "last"),
    ):
        state = {
            **{name: pair[name] for name in ("prompt", "other", "answers", "wrongs")},
            "cut": ["a0.h1", "a2.h3"], "fill": fill, "positions": positions, "reference": "ioi", "new_tokens": 4,
        }  # fmt: skip
        said, made = post(board, "answer", state=state), {}
        exec(post(board, "python", state=state)["text"], made)
        assert all(row["cut"] == float(made["probabilities"][row["id"]]) for row in said["rows"])
        assert said["cut"] == made["logit_difference"]
        written = post(board, "continue", state=state)[-1]
        assert "".join(written["cut"]) == made["model"].decode(made["said"], skip_special_tokens=True)
    no_wrong = {"prompt": PROMPT, "answers": [" Mary"], "new_tokens": 0}
    made = {}
    exec(post(board, "python", state=no_wrong)["text"], made)
    assert post(board, "answer", state=no_wrong)["cut"] == made["log_probability"]


def test_texts_are_quoted_in_python_that_is_copied(board):
    prompt = 'it\'s "quoted" \\ and\nbroken {x}'
    made = {}
    exec(post(board, "python", state={"prompt": prompt, "new_tokens": 0})["text"], made)
    assert made["ids"][0].tolist() == made["model"].encode(prompt)


@pytest.mark.parametrize(("fill", "in_order"), [("counterfactual", True), ("zero", False)])
def test_a_study_that_is_saved_measures_the_cut_that_was_seen(board, tmp_path, own_cache, no_figures, fill, in_order):
    """Its one test prompt is the one that was shown, so that explained effect with as many heads is the page's own."""
    model = board._app.model
    count = model.head_count
    order = [head_name(divmod((7 * place) % count, model.n_heads)) for place in range(count)]
    told = {"fill": fill, "cut": order[20:]}
    pairs = post(board, "pairs", task="ioi", seed=2)["states"][:2]
    names = ("prompt", "other", "answers", "wrongs")
    states = [{**{name: pair[name] for name in names}, **told} for pair in pairs]
    made = post(board, "study", states=states, name=f"seen-{fill}", order=order if in_order else [])
    result = hc.run(f"{made['folder']}/study.toml", out=tmp_path / "out", overrides={"draws": 1}, quiet=True)
    curve = result.curves[0]
    assert (curve.method, curve.order, set(curve.ranking[:20])) == ("by-hand", "absolute", set(order[:20]))
    assert not in_order or list(curve.ranking) == order
    explained = post(board, "answer", state=states[0])["explained"]
    assert curve.band().value[curve.ks.index(20)] == pytest.approx(explained, abs=1e-4)


def test_a_study_that_is_saved_can_be_run_and_its_heads_loaded(board, tmp_path, own_cache):
    states = [
        {
            **{name: pair[name] for name in ("prompt", "other", "answers", "wrongs")},
            "cut": ["a0.h1"],
            "fill": "counterfactual",
        }
        for pair in post(board, "pairs", task="greater-than", seed=1)["states"][:4]
    ]
    made = post(board, "study", states=states, name="by-hand-1")
    assert made["command"] == f"headcount run {made['folder']}/study.toml"
    study = read_study(f"{made['folder']}/study.toml")
    (panel,) = study.panels
    assert (panel.models, panel.fill, panel.positions) == (("tiny",), "counterfactual", "all")
    task = hc.task(panel.task, hc.load("tiny"), n=panel.n)
    assert sorted(map(len, task.sides)) == [2, 2]
    model = hc.load("tiny")
    assert {pair.clean for side in task.sides for pair in side} == {Asked.of(model, State(**s)).ids for s in states}
    assert panel.ks == (model.head_count - 1,)
    kept = HeadScores.load(f"{made['folder']}/by-hand")
    assert [head_name((layer, head)) for layer, head in zip(*(kept.values == 0).nonzero(), strict=True)] == ["a0.h1"]
    texts = [{"prompt": PROMPT, "answers": [" Mary"]}, {"prompt": f"{PROMPT} the", "answers": [" John"]}]
    targets = post(board, "study", states=texts, name="targets")
    assert not hc.task(read_study(f"{targets['folder']}/study.toml").panels[0].task, model, n=2).has_pairs
    for wrong, words in (
        ({"states": states[:1], "name": "one"}, "needs two or more"),
        ({"states": states, "name": "by-hand-1"}, "already"),
        ({"states": states, "name": "../out"}, "letters, digits"),
        ({"states": [{"prompt": PROMPT}, {"prompt": "Mary"}], "name": "no"}, "every prompt needs an answer"),
    ):
        assert words in post(board, "study", **wrong)["error"]


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("answer", {"data": b"{"}, "must be JSON"),
        ("answer", {"data": b"[" * 50_000}, "must be JSON"),
        ("answer", {"data": b"[1]"}, "JSON object"),
        ("answer", {"data": b"\xff\xfe"}, "must be JSON"),
        ("answer", {}, "state is missing"),
        ("answer", {"state": {"prompt": 5}}, "prompt must be a text or a list"),
        ("answer", {"state": {"prompt": PROMPT, "cut": ["a99.h0"]}}, "there is no head (99, 0)"),
        ("answer", {"state": {"prompt": PROMPT, "cut": "a0.h0"}}, "cut must be"),
        ("answer", {"state": {"prompt": PROMPT, "model": "smollm2"}}, "switchboard is of tiny"),
        ("answer", {"state": {"prompt": "Mary " * 30_000}}, "Shorten it"),
        ("answer", {"state": {"prompt": PROMPT, "fill": "scale(nan)"}}, "no fill"),
        ("answer", {"state": {"prompt": PROMPT, "answers": [" Mary John"]}}, "one token"),
        ("answer", {"state": {"prompt": "a \ud800"}}, "half a letter at place 2"),
        ("answer", {"state": {"prompt": PROMPT, "\ud800": 1}}, "must be"),
        ("look", {"state": {"prompt": PROMPT}, "head": "a0.h99"}, "there is no head (0, 99)"),
        ("look", {"state": {"prompt": PROMPT}, "head": "x" * 5000}, "such as 'a3.h5'"),
        ("heads", {"text": "a99.h1"}, "there is no head (99, 1)"),
        ("pairs", {"task": "/etc/passwd.jsonl"}, "There is no task"),
        ("answer", {"state": {"prompt": ["x"] * 20_000}}, "prompt must be"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence_and_the_server_goes_on(board, path, body, words):
    is_one = "state" in body or "text" in body or "task" in body  # what a request asks for, not what it is made of
    said = post(board, path, 200 if is_one else 400, **body)["error"]
    assert words in said
    assert len(said) <= 300
    assert post(board, "heads", text="a0.h1") == {"id": 0, "heads": ["a0.h1"]}


def test_streams_tell_what_is_wrong_in_their_last_line(board):
    said = post(board, "continue", state={"prompt": PROMPT, "cut": ["a99.h0"]}, id=4)
    assert said == [{"id": 4, "error": said[0]["error"]}]
    assert "no head (99, 0)" in said[0]["error"]


def test_a_newer_job_of_the_same_kind_and_client_overtakes_the_older_within_a_layer():
    """The older one runs when the newer comes, and stops at the next layer; another client's goes on."""
    model = tiny("gpt2")
    app = App(model)
    entered, go = threading.Event(), threading.Event()
    ids, said = torch.tensor([[5, 6, 7]]), {}

    def first():
        with model.anatomy.layers[1].register_forward_pre_hook(lambda *_: entered.set() or (go.wait(20) and None)):
            model.run(ids)
        yield {"first": True}

    def done(name):
        return lambda event: said.setdefault(name, []).append(event)

    def quick():
        yield {"quick": True}

    older, other = Job("me", "answer", first, done("older")), Job("you", "answer", quick, done("other"))
    waiting, newer = Job("me", "answer", quick, done("waiting")), Job("me", "answer", quick, done("newer"))
    app.worker.submit(older)
    assert entered.wait(20)
    for job in (other, waiting, newer):
        app.worker.submit(job)
    go.set()
    deadline = time.time() + 20
    while len(said.get("newer", [])) < 2 and time.time() < deadline:
        time.sleep(0.01)
    app.worker.stop()
    assert isinstance(said["older"][0], OvertakenError)
    assert isinstance(said["waiting"][0], OvertakenError)
    assert said["other"] == said["newer"] == [{"quick": True}, None]
    assert not any(module._forward_pre_hooks for module in model.hf.modules())


def test_ctrl_c_ends_it_at_once_also_while_it_writes(tmp_path):
    said = tmp_path / "said"
    process = forked.start("play", "tiny", "--no-open", cache=tmp_path, said=said)
    try:
        deadline = time.time() + 60
        while "token=" not in (said.read_text() if said.exists() else "") and time.time() < deadline:
            time.sleep(0.05)
        served = SimpleNamespace(url=next(word for word in said.read_text().split() if "token=" in word))
        assert post(served, "heads", text="a0.h1")["heads"] == ["a0.h1"]
        address, token = served.url.split("/?token=")
        body = json.dumps({"state": {"prompt": PROMPT, "new_tokens": 64}}).encode()
        asked = urllib.request.Request(f"{address}/api/continue", body, {TOKEN_HEADER: token})
        with urllib.request.urlopen(asked, timeout=20) as stream:
            stream.readline()
            os.kill(process.pid, signal.SIGINT)
            process.join(20)
        assert process.exitcode == 130
        assert said.read_text().splitlines()[-1] == "headcount: stopped."
        assert "Traceback" not in said.read_text()
    finally:
        process.kill()


def test_without_its_extra_it_says_what_to_install(headcount, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "headcount.view.server")
    monkeypatch.delattr("headcount.view.server")
    code, _, said = headcount("play", "tiny")
    assert code == 2
    assert said == "headcount: Pages that are served need starlette and uvicorn: pip install 'headcount[page]'\n"


def test_in_a_notebook_it_is_a_frame_in_the_cell_and_text_elsewhere(board):
    assert repr(board) == f"Switchboard of tiny: {board.url}"
    html = board._repr_html_()
    assert html.startswith("<iframe ")
    assert board.url in html
