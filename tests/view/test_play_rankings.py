"""Rankings on the switchboard: where they come from, and that nobody waits for them."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext

import pytest
import torch

import headcount as hc
from asked_boards import PROMPT, playing, post
from families import tiny
from headcount.edit import head_name
from headcount.rank.roles import HeadRoles
from headcount.view.play.aside import in_turns
from headcount.view.play.board import Switchboard
from headcount.view.play.state import parse_heads
from headcount.view.play.worker import Job, Worker


def test_rankings_come_from_saved_scores_roles_detectors_and_methods(tmp_path):
    model = hc.load("tiny")
    task = hc.task("ioi", model, n=8)
    scores = hc.score(model, task, "attribution")
    scores.save(tmp_path / "study" / "scores" / "ioi-tiny")
    gates = torch.rand(3, 2, model.n_layers, model.n_heads, generator=torch.Generator().manual_seed(0)).double().numpy()
    HeadRoles("tiny", "ioi", "zero", *gates, gates[:, :1, 0, :2]).save(tmp_path / "roles")
    hc.score(
        tiny("gpt2"), hc.Task("t", "T", "logit_diff", *[(hc.Pair((5, 6), (5, 7), (1,), (2,)),)] * 2), "direct"
    ).save(tmp_path / "others")
    with playing(model, results=tmp_path) as board:
        facts = board._app.facts()
        named = {source["name"]: source["kind"] for source in facts["rankings"]}
        assert named["study/scores/ioi-tiny"] == named["roles"] == "saved"
        assert named["induction"] == "detector"
        assert named["attribution"] == "method"
        saved = post(board, "ranking", name="study/scores/ioi-tiny")[-1]["ranking"]
        for order in saved["orders"]:
            assert order["heads"] == [head_name(head) for head in scores.order(order["name"])]
            assert order["values"] == [scores.values[head] for head in scores.order(order["name"])]
        roles = post(board, "ranking", name="roles")[-1]["ranking"]
        assert [order["name"] for order in roles["orders"]] == ["facilitation", "irrelevance", "interference"]
        told = post(board, "ranking", name="induction")
        assert [line["done"] for line in told[:-1]] == [0, 16]
        found = hc.score(model, hc.Task("t", "T", "log_prob", (hc.Completion((0,), (0,)),) * 16, ()), "induction")
        assert told[-1]["ranking"]["orders"][0]["heads"] == list(found.top(model.head_count, "absolute"))
        here = post(board, "ranking", name="attribution", task="ioi")
        assert here[-2]["done"] == here[-2]["of"]
        assert len(here[-1]["ranking"]["orders"][0]["heads"]) == model.head_count
        assert "or scores of this one" in post(board, "ranking", name="others")[-1]["error"]
        for name in ("../../etc", "eap", "nowhere"):
            assert "no ranking" in post(board, "ranking", name=name)[-1]["error"]


def test_clicks_come_between_the_steps_of_long_work_and_cancelled_work_ends():
    order, stepped = [], threading.Event()
    worker = Worker(lambda check: nullcontext())

    def long():
        try:
            for step in range(1000):
                order.append(step)
                if step == 3:
                    stepped.set()
                time.sleep(0.002)
                yield {}
        finally:
            order.append("closed")

    ended = threading.Event()
    patient = Job(
        "me",
        "continue",
        long,
        lambda event: ended.set() if event is None or isinstance(event, Exception) else None,
        urgent=False,
    )
    worker.submit(patient)
    assert stepped.wait(20)
    clicked = threading.Event()
    worker.submit(
        Job("me", "answer", lambda: iter([order.append("click") or {"clicked": True}]), lambda event: clicked.set())
    )
    assert clicked.wait(20)
    worker.drop(patient)
    assert ended.wait(20)
    worker.stop()
    assert order.index("click") < 990
    assert order[-1] == "closed"


def test_clicks_come_between_the_layers_of_a_model_that_is_being_scored(monkeypatch):
    """A ranking that has begun its first layers lets a click through before its next, and neither changes the other."""
    model, order, state = hc.load("tiny"), [], {"prompt": PROMPT, "cut": ["a0.h1"]}
    answer = Switchboard.answer
    monkeypatch.setattr(Switchboard, "answer", lambda *asked: order.append("click") or answer(*asked))
    with playing(model, results=None) as board, ExitStack() as hooks, ThreadPoolExecutor(1) as pool:
        alone = post(board, "ranking", name="attribution", task="ioi")[-1]["ranking"]
        worker, entered = board._app.worker, threading.Event()

        def note(layer):
            if layer == 1 and not entered.is_set():
                entered.set()
                deadline = time.time() + 20
                while not worker._waiting and time.time() < deadline:
                    time.sleep(0.05)
            order.append(layer)

        for number, layer in enumerate(board._app.rankings._own.anatomy.layers):
            hooks.enter_context(layer.register_forward_pre_hook(lambda *_, number=number: note(number)))
        ranking = pool.submit(post, board, "ranking", name="attribution", task="ioi", client="me")
        assert entered.wait(20)
        said = post(board, "answer", state=state, client="me")
        assert ranking.result()[-1]["ranking"] == alone
    assert order[:4] == [0, 1, "click", 2]
    with torch.no_grad(), hc.cut(model, ["a0.h1"]):
        ids = torch.tensor([model.encode(PROMPT)])
        shares = model.last_logits(ids, torch.tensor([ids.shape[1] - 1]))[0].double().softmax(-1)
    assert all(row["cut"] == float(shares[row["id"]]) for row in said["rows"])


def test_work_in_turns_ends_where_it_is_no_longer_wanted():
    layers = []

    def work(pause):
        for layer in range(10_000):
            layers.append(layer)
            time.sleep(0.001)
            pause()
        return {"never": True}

    turns = in_turns(work)
    assert [next(turns), next(turns)] == [{}, {}]
    turns.close()
    assert 2 <= len(layers) < 10_000
    assert list(in_turns(lambda pause: pause({"half": 1}) or {"whole": 2})) == [{"half": 1}, {"whole": 2}]
    with pytest.raises(hc.HeadcountError, match="none of them"):
        list(in_turns(lambda pause: parse_heads(tiny("gpt2"), "within")))
    assert not any(thread.name == "headcount aside" for thread in threading.enumerate())
