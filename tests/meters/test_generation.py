"""Generation under a change: with none it is Hugging Face's own, token for token; with one, what hooks around it
give."""

import pytest
import torch

import headcount as hc
from families import FAMILIES, prompts, tiny
from headcount.edit import Filling, push_heads
from headcount.meters.generation import Cuts, Pushes, generate
from tokenizers_for_tests import make_tokenizer

LENGTHS = (9, 4, 7)
NEW = 6


def ragged(seed: int = 0) -> list[list[int]]:
    """Prompts of several lengths."""
    return [prompts(1, length, seed=seed + place)[0].tolist() for place, length in enumerate(LENGTHS)]


def hf_answers(model: hc.Model, rows: list[list[int]], new: int = NEW) -> list[list[int]]:
    """`generate` by itself on a batch padded on the left."""
    width = max(map(len, rows))
    ids = torch.tensor([[2] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    made = model.hf.generate(
        input_ids=ids, attention_mask=mask, max_new_tokens=new, do_sample=False, pad_token_id=2
    )  # fmt: skip
    answers = []
    for row in made[:, width:].tolist():
        answers.append(row[: row.index(1)] if 1 in row else row)
    return answers


def one_by_one(model: hc.Model, rows: list[list[int]]) -> list[list[int]]:
    return [hf_answers(model, [row])[0] for row in rows]


def some_cuts(model: hc.Model, count: int = 2) -> torch.Tensor:
    """The whole model, then more and more of its heads removed."""
    generator = torch.Generator().manual_seed(3)
    chance = torch.rand(count, model.n_layers, model.n_heads, generator=generator)
    return chance >= torch.linspace(0, 0.7, count)[:, None, None]


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_change_it_is_hugging_faces_generate_token_for_token(family):
    model = tiny(family)
    rows = ragged()
    assert generate(model, rows, max_new_tokens=NEW)[0] == hf_answers(model, rows)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("positions", ["generated", "all"])
def test_many_cuts_in_one_batch_give_what_each_gives_alone(family, positions):
    """Also with prompts that are padded on the left, and with their first tokens read once for all cuts."""
    model = tiny(family, layers=2)
    rows, keeps = ragged(), some_cuts(model)
    together = generate(model, rows, Cuts(keeps, Filling(), positions), max_new_tokens=NEW)
    for keep, answers in zip(keeps, together, strict=True):
        removed = [(int(layer), int(head)) for layer, head in (~keep).nonzero()]
        with hc.cut(model, removed, "zero", positions=positions):
            assert answers == one_by_one(model, rows)
    assert together[0] != together[-1], "the cuts of this test change nothing"


@pytest.mark.parametrize("positions", ["generated", "all"])
def test_masking_no_heads_gives_the_answers_of_the_whole_model(positions):
    model = tiny("llama-gqa")
    none = torch.ones(2, model.n_layers, model.n_heads, dtype=torch.bool)
    first, second = generate(model, ragged(), Cuts(none, Filling(scale=0.001), positions), max_new_tokens=NEW)
    assert first == second == generate(model, ragged(), max_new_tokens=NEW)[0]


def test_the_two_positions_are_different_interventions():
    model = tiny("gpt2")
    keeps = some_cuts(model)[1:]
    found = {where: generate(model, ragged(), Cuts(keeps, Filling(), where)) for where in ("generated", "all")}
    assert found["generated"] != found["all"]


def test_answers_do_not_depend_on_how_prompts_share_batches():
    model = tiny("qwen3", torch.float64)
    change = Cuts(some_cuts(model))
    small, large = (generate(model, ragged(), change, max_tokens=size, max_new_tokens=NEW) for size in (1, 10_000))
    assert small == large


def test_the_answers_come_in_the_order_of_the_prompts_and_each_is_counted():
    model, told = tiny("llama", torch.float64), []
    rows = ragged()
    forwards = generate(model, rows, Cuts(some_cuts(model)), max_new_tokens=NEW, advance=told.append)
    backwards = generate(model, rows[::-1], Cuts(some_cuts(model)), max_new_tokens=NEW)
    assert [answers[::-1] for answers in backwards] == forwards
    assert sum(told) == 2 * len(rows)


def test_hooks_are_gone_afterwards_and_after_an_error():
    model = tiny("llama")
    with pytest.raises(RuntimeError):
        generate(model, [[3, 4]], Cuts(torch.zeros(1, model.n_layers, 99, dtype=torch.bool)))
    assert not any(projection._forward_pre_hooks for projection in model.anatomy.out_projections)


def test_an_answer_ends_at_the_first_stop_string():
    tokenizer = make_tokenizer("digits")
    model = tiny("llama")
    config = model.hf.config
    config.vocab_size = len(tokenizer)
    torch.manual_seed(0)
    speaking = hc.load(type(model.hf)(config), tokenizer=tokenizer, name="speaking")
    prompt = tokenizer("We saw")["input_ids"]
    whole = generate(speaking, [prompt], max_new_tokens=12)[0][0]
    text = tokenizer.decode(whole)
    stop = tokenizer.decode(whole[:3])[-1]
    cut = tokenizer.decode(generate(speaking, [prompt], max_new_tokens=12, stop=[stop])[0][0])
    assert text.startswith(cut)
    assert stop not in cut.rstrip(stop)
    assert len(cut) <= text.find(stop) + len(stop)


def test_penalties_in_the_models_own_config_are_left_aside():
    model = tiny("gpt2")
    plain = generate(model, ragged(), max_new_tokens=NEW)
    model.hf.generation_config.repetition_penalty = 5.0
    config = model.hf.generation_config
    assert hf_answers(model, ragged()) != plain[0], "the penalty of this test changes nothing"
    assert generate(model, ragged(), max_new_tokens=NEW) == plain
    assert model.hf.generation_config is config


def test_more_tokens_than_the_model_takes_are_refused():
    with pytest.raises(hc.HeadcountError, match="prompt of 60 tokens and an answer of 8 .* the 64 that gpt2 takes"):
        generate(tiny("gpt2"), [[3] * 60], max_new_tokens=8)


def test_stop_strings_need_a_tokenizer():
    with pytest.raises(hc.HeadcountError, match="without a tokenizer, and this needs one"):
        generate(tiny("gpt2"), [[3, 4]], stop=["."])


def test_unknown_positions_are_refused():
    with pytest.raises(hc.HeadcountError, match="no positions 'last'. Known: generated, all"):
        Cuts(torch.ones(1, 1, 1, dtype=torch.bool), positions="last")


def test_an_empty_prompt_is_refused():
    with pytest.raises(hc.HeadcountError, match="Prompt 1 is empty"):
        generate(tiny("llama"), [[3], []])


@pytest.mark.parametrize("family", ["gpt2", "llama-gqa"])
def test_a_push_adds_its_vector_to_the_heads_and_nothing_else(family):
    model = tiny(family, torch.float64)
    ids = prompts(2, 6)
    size = model.anatomy.head_size
    vectors = torch.zeros(1, model.n_layers, model.n_heads, size, dtype=torch.float64)
    vectors[0, 1, 2] = torch.linspace(-1, 1, size)
    with push_heads(model, vectors, "all"):
        pushed = model.logits(ids)
    projection = model.anatomy.out_projections[1]
    written = vectors[0, 1, 2] @ model.anatomy.out_weight(1)[2]
    handle = projection.register_forward_hook(lambda module, args, output: output + written)
    torch.testing.assert_close(pushed, model.logits(ids))
    handle.remove()


def test_many_pushes_in_one_batch_give_what_each_gives_alone():
    model = tiny("mistral", torch.float64)
    generator = torch.Generator().manual_seed(0)
    shape = (3, model.n_layers, model.n_heads, model.anatomy.head_size)
    vectors = torch.randn(shape, generator=generator, dtype=torch.float64) * torch.tensor([0.0, 0.5, 2.0]).view(
        3, 1, 1, 1
    )
    together = generate(model, ragged(), Pushes(vectors), max_new_tokens=NEW)
    for vector, answers in zip(vectors, together, strict=True):
        with push_heads(model, vector[None], "generated"):
            assert answers == one_by_one(model, ragged())
    assert together[0] == generate(model, ragged(), max_new_tokens=NEW)[0]
    assert together[0] != together[2]
