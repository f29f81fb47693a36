"""What the switchboard answers: the numbers of `headcount.cut`, bit for bit, on every family and for every fill."""

from itertools import product

import pytest
import torch

import headcount as hc
from families import FAMILIES, pairs, prompts, tiny
from headcount.edit.resume import Reading, last_of, resumed
from headcount.view.play import board as engine
from headcount.view.play.board import Switchboard, metric_of
from headcount.view.play.look import Looker
from headcount.view.play.state import Asked, State, as_answer, as_words, parse_heads, prompt_ids
from headcount.view.play.writing import Writer

FILLS = ("zero", "scale(0.3)", "counterfactual", "mean-global", "mean", "resample")
CUTS = (
    ("a0.h1",),
    ("a1.h0", "a1.h3"),
    ("a2.h2",),
    tuple(f"a{layer}.h{head}" for layer in range(3) for head in range(4)),
)
PAIR = pairs(1)[0]
REFERENCE = hc.Task("mean", "Mean", "logit_diff", tuple(pairs(4, seed=5)), ())


def state(**changes):
    given = {"prompt": list(PAIR.clean), "other": list(PAIR.corrupt), "reference": "ioi", "new_tokens": 3}
    return State(**{**given, "answers": [7], "wrongs": [9], **changes})


def python_logits(model, asked, fill, positions):
    """The next token's logits by the public API alone."""
    ids, other = torch.tensor([asked.ids]), torch.tensor([asked.other])
    with torch.no_grad(), hc.cut(model, asked.heads, fill, positions=positions, other=other, reference=REFERENCE.train):
        return model.last_logits(ids, torch.tensor([len(asked.ids) - 1]))[0]


@pytest.fixture(autouse=True)
def _mean_over_our_own_prompts(monkeypatch):
    monkeypatch.setattr(engine, "make_task", lambda name, model, n: REFERENCE)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_fill_gives_the_bits_of_cut_on_every_family(family):
    model = tiny(family)
    board = Switchboard(model)
    for place, (fill, positions) in enumerate(product(FILLS, ("all", "last", "generated"))):
        cut = CUTS[(place + place // 4) % 4]  # so that no fill and no position sees the same cuts alone
        asked = Asked.of(model, state(cut=list(cut), fill=fill, positions=positions))
        run = board.run(asked)
        assert torch.equal(run.logits, python_logits(model, asked, fill, positions)), (fill, positions, cut)
        assert run.skipped_layers == int(cut[0][1])
    # Nothing is left behind, and nothing that was noted has been changed by later runs.
    ids = torch.tensor([PAIR.clean])
    assert torch.equal(board.reading(PAIR.clean).logits, Reading.of(model, ids).logits)
    assert not any(module._forward_pre_hooks or "forward" in vars(module) for module in model.hf.modules())


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_cut_model_writes_is_what_generate_writes_inside_cut(family):
    model = tiny(family)
    model.hf.generation_config.eos_token_id = None
    writer = Writer(Switchboard(model))
    ids, other = torch.tensor([PAIR.clean]), torch.tensor([PAIR.corrupt])
    for fill, positions in (
        ("zero", "last"), ("counterfactual", "all"), ("scale(0.3)", "generated"), ("mean", "all"), ("resample", "all"),
    ):  # fmt: skip
        asked = Asked.of(model, state(cut=["a0.h1", "a1.h2"], fill=fill, positions=positions))
        *_, last = writer.write(asked)
        with hc.cut(model, asked.heads, fill, positions=positions, other=other, reference=REFERENCE.train):
            made = model.hf.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=3, do_sample=False, pad_token_id=0
            )[0, ids.shape[1] :].tolist()
        assert last["cut"] == [f"<{token}>" for token in made], (fill, positions)
        assert last["done"] == last["of"] == 6


@pytest.mark.parametrize("family", ["gpt2", "gptj", "mistral", "gemma3", "opt"])
def test_long_stretches_that_a_cut_cannot_reach_are_not_run_again(family, monkeypatch):
    """The same numbers to the rounding of the precision; of a prompt that differs from its counterfactual late."""
    monkeypatch.setattr(engine, "WORTH_SKIPPING", 4)
    model = tiny(family, torch.float64)
    clean, corrupt = prompts(2, 12).tolist()
    corrupt = [*clean[:7], *corrupt[7:]]
    for fill, positions, skipped in (
        ("counterfactual", "all", 7), ("zero", "last", 11), ("mean", "last", 11), ("zero", "all", 0),
    ):  # fmt: skip
        given = state(prompt=clean, other=corrupt, cut=["a1.h0", "a2.h1"], fill=fill, positions=positions)
        asked = Asked.of(model, given)
        run = Switchboard(model).run(asked)
        wanted = python_logits(model, asked, fill, positions)
        # Some families compute norms and softmax in float32 whatever the model's type.
        torch.testing.assert_close(run.logits, wanted, atol=1e-5, rtol=0)
        assert (run.skipped_layers, run.skipped_tokens) == (1, skipped)


def test_a_layer_before_the_first_cut_does_not_run():
    model = tiny("llama-gqa")
    ids, ran = prompts(2, 6), []
    reading = Reading.of(model, ids)
    hooks = [
        layer.mlp.register_forward_hook(lambda *_, n=n: ran.append(n)) for n, layer in enumerate(model.anatomy.layers)
    ]
    with torch.no_grad(), resumed(model, reading, 2):
        assert torch.equal(model.last_logits(ids, last_of(ids)), reading.logits)
    assert ran == [2]
    for hook in hooks:
        hook.remove()


def test_metrics_and_explained_effect_are_those_of_a_sweep():
    model, asked_pair = tiny("gpt2", torch.float64), PAIR
    answers, wrongs = list(asked_pair.answers), list(asked_pair.wrongs)
    asked = Asked.of(model, state(answers=answers, wrongs=wrongs, cut=["a0.h0", "a2.h3"], fill="counterfactual"))
    said = Switchboard(model).answer(asked)
    filler = hc.edit.Filler.prepare(model, "counterfactual", examples=[asked_pair], reference=[asked_pair])
    keeps = torch.ones(3, 3, 4, dtype=torch.bool)
    keeps[1, 0, 0] = keeps[1, 2, 3] = False
    keeps[2] = False
    values = hc.HeadMeter(model, [asked_pair], filler).measure(keeps)
    whole, cut, none = values["logit_diff"][:, 0]
    assert (said["whole"], said["cut"], said["none"]) == pytest.approx((whole, cut, none), abs=1e-9)
    assert said["explained"] == pytest.approx((cut - none) / (whole - none), abs=1e-6)
    assert said["kl"] == pytest.approx(values["kl"][1, 0], abs=1e-9)
    assert {row["id"]: row["side"] for row in said["rows"]}.items() >= {(answers[0], "answer"), (wrongs[0], "wrong")}
    logits = python_logits(model, asked, "counterfactual", "all")
    for row in said["rows"]:
        assert row["cut"] == float(logits.double().softmax(-1)[row["id"]])
    of_answers = Asked.of(model, state(answers=answers, wrongs=[]))
    assert metric_of(logits, of_answers) == ("log_prob", float(logits.double().log_softmax(-1)[answers[0]]))


@pytest.mark.parametrize("family", ["gpt2", "olmo2", "gemma2"])
def test_a_look_shows_the_weights_and_what_the_head_writes_into_the_logits(family):
    """What a head of the last layer writes is the fall of a logit when its output is taken from the stream by hand."""
    model = tiny(family, torch.float64)
    board = Switchboard(model)
    asked = Asked.of(model, state(cut=["a0.h1"]))
    look = Looker(board).look(asked, (1, 2))
    from headcount.edit.attention import attention_weights

    with hc.cut(model, ["a0.h1"]):
        weights = attention_weights(model, torch.tensor([asked.ids]))[1][0, 2]
    for place, row in enumerate(look["cut"]):
        assert row == pytest.approx(weights[place, : place + 1].tolist(), abs=1e-7)
    assert look["whole"] != look["cut"]
    silent = Looker(board).look(asked, (0, 1))["most"]
    assert [push["cut"] for push in silent] == [0] * len(silent)
    assert [push["whole"] for push in silent] == sorted((push["whole"] for push in silent), reverse=True)
    assert silent[0]["whole"] > 0, "of a head that is cut, what it would write"
    task = hc.Task("one", "One", "logit_diff", (hc.Pair(asked.ids, asked.ids, (7,), (9,)),), ())
    scores = hc.score(model, task, "direct").values
    view = Looker(board).overview(Asked.of(model, state()))
    torch.testing.assert_close(
        torch.tensor(view["writes"], dtype=torch.float64), torch.tensor(scores), atol=1e-6, rtol=0
    )
    pushes = {push["id"]: push["whole"] for push in look["toward"]}
    assert pushes[7] - pushes[9] == pytest.approx(scores[1, 2], abs=1e-6)
    assert view["open"] is None
    assert look["open_keys"] is None


def test_open_keys_of_a_sparse_model_are_those_of_its_gates():
    model = hc.load("tiny-sparse")
    from headcount.models.gates import counted, gates_of

    given = State(prompt="When Mary and John went to the store, John gave a book to")
    asked = Asked.of(model, given)
    looker = Looker(Switchboard(model))
    with torch.no_grad(), counted(gates_of(model)) as ledger:
        model.run(torch.tensor([asked.ids]))
    for head in ((0, 1), (2, 3)):
        assert looker.look(asked, head)["open_keys"] == ledger.open[head[0]][0, head[1]].int().tolist()
    shares = looker.overview(asked)["open"]
    assert shares[1][2] == pytest.approx(float(ledger.open[1][0, 2].sum() / ledger.edges[1].sum()))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompt": []}, "prompt is empty"),
        ({"prompt": [99]}, "between 0 and 63; 99 does not"),
        ({"prompt": [5] * 65}, "may have 64 tokens here, and this one has 65"),
        ({"cut": ["a9.h0"]}, "no head (9, 0)"),
        ({"cut": ["nonsense"]}, "such as 'a3.h5'"),
        ({"fill": "mean", "reference": "nothing"}, "no task 'nothing'"),
        ({"seed": -1}, "at least 0"),
        ({"fill": "zeroo"}, "no fill 'zeroo'"),
        ({"fill": "mean-global", "reference": ""}, "Choose one, such as ioi"),
        ({"fill": "counterfactual", "other": []}, "there is none"),
        ({"fill": "counterfactual", "other": [5, 6]}, "of 10 tokens, as many as the prompt has, and it has 2"),
        ({"positions": "first"}, "positions cannot be 'first'"),
        ({"answers": [7], "wrongs": [7]}, "right and wrong at once"),
        ({"model": "another"}, "switchboard is of gpt2"),
        ({"new_tokens": 10**6}, "not above 64"),
        ({"colour": "red"}, "unknown key 'colour'"),
    ],
)
def test_what_cannot_be_asked_is_told_in_a_sentence(changes, words):
    with pytest.raises(hc.HeadcountError) as error:
        Asked.of(tiny("gpt2"), state(**changes))
    assert words in str(error.value)
    assert len(str(error.value)) <= 300


def test_a_pasted_list_of_heads_is_understood_however_it_is_written():
    model = tiny("gpt2")
    assert parse_heads(model, "a0.h1, (1, 2); 2.3 L0H2\na1.h2") == ["a0.h1", "a1.h2", "a2.h3", "a0.h2"]
    assert parse_heads(model, "[(0, 1), ['a2.h0']]") == ["a0.h1", "a2.h0"]
    for text, words in (
        ("a0.h9", "no head (0, 9)"),
        ("heads", "none of them"),
        (" ", "no heads"),
        ("12", "none of them"),
    ):
        with pytest.raises(hc.HeadcountError, match=".*") as error:
            parse_heads(model, text)
        assert words in str(error.value)


def test_examples_become_words_only_where_words_give_the_same_tokens():
    model = hc.load("tiny")
    for task in ("ioi", "greater-than"):
        pair = hc.task(task, model, n=4).test[0]
        words = as_words(model, pair.clean)
        assert prompt_ids(model, words) == pair.clean
        answer = as_answer(model, words, pair.answers[0])
        given = State(prompt=words, answers=[answer])
        assert Asked.of(model, given).answers == pair.answers[:1]
