"""A model made by hand in which two known heads copy from the context, and questions that need them or do not.

Words are fillers f0 …, values v0 …, and `Answer:` at the end of each prompt. Where a value stands in the prompt, heads
1 and 3 of layer 1 look at it from `Answer:` and write it; without one the model says d0. All other heads carry fillers.
"""

import random
from functools import cache
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import headcount as hc
from headcount.tasks.questions import Question, QuestionSet

COPYING = ((1, 1), (1, 3))
FILLERS, VALUES = [f"f{i}" for i in range(12)], [f"v{i}" for i in range(8)]
WORDS = ["<unk>", "</s>", "Answer:", "d0", *FILLERS, *VALUES]
WIDTH, HEADS, SIZE = 64, 4, 16
IS_VALUE, IS_QUERY, IS_DEFAULT = 40, 41, 42
"""Directions of the stream that say what kind of word it is; word i has direction i."""


def tokenizer() -> PreTrainedTokenizerFast:
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", eos_token="</s>", pad_token="</s>")
    fast.chat_template = "{{ messages[0]['content'] }} Answer:"
    return fast


@cache
def planted() -> hc.Model:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(WORDS), n_embd=WIDTH, n_layer=2, n_head=HEADS, n_positions=64, bos_token_id=1, eos_token_id=1,
        tie_word_embeddings=False,
    )  # fmt: skip
    hf = GPT2LMHeadModel(config)
    with torch.no_grad():
        for name, parameter in hf.named_parameters():
            if "ln_" not in name:
                parameter.zero_()
        words = hf.transformer.wte.weight
        for word, place in {word: i for i, word in enumerate(WORDS)}.items():
            words[place, place] = 1
            words[place, IS_VALUE] = float(word in VALUES)
        words[WORDS.index("Answer:"), IS_QUERY] = 1
        words[WORDS.index("d0"), IS_DEFAULT] = 1
        values, fillers = (slice(WORDS.index(kind[0]), WORDS.index(kind[-1]) + 1) for kind in (VALUES, FILLERS))
        for layer, block in enumerate(hf.transformer.h):
            query, key, value = block.attn.c_attn.weight.split(WIDTH, dim=1)
            for head in range(HEADS):
                own = slice(head * SIZE, (head + 1) * SIZE)
                if (layer, head) in COPYING:
                    query[IS_QUERY, own.start] = key[IS_VALUE, own.start] = 6
                    value[values, own.start : own.start + len(VALUES)] = torch.eye(len(VALUES))
                    block.attn.c_proj.weight[own.start : own.start + len(VALUES), values] = torch.eye(len(VALUES))
                else:
                    query[:, own] = torch.randn(WIDTH, SIZE) * 0.2
                    key[fillers, own] = torch.randn(len(FILLERS), SIZE) * 0.2
                    value[fillers, own] = torch.randn(len(FILLERS), SIZE) * 0.5
        for place in range(len(WORDS)):
            hf.lm_head.weight[place, place] = 1
        hf.lm_head.weight[WORDS.index("Answer:"), WORDS.index("Answer:")] = 0
        hf.lm_head.weight[WORDS.index("d0"), IS_QUERY] = 1
        hf.lm_head.weight[WORDS.index("</s>"), [IS_VALUE, IS_DEFAULT]] = 5
    return hc.load(hf, tokenizer=tokenizer(), name="planted")


def planted_questions(each: int = 20, seed: int = 0) -> QuestionSet:
    """Retrieval questions have a value among their fillers, the others have none."""
    rng = random.Random(seed)
    sides = []
    for _ in range(3):
        side = []
        for _ in range(each):
            fillers = rng.choices(FILLERS, k=8)
            side.append(Question("knowledge-recall", "none", " ".join(fillers), "d0"))
            value = rng.choice(VALUES)
            fillers[rng.randrange(8)] = value
            side.append(Question("retrieval", "one", " ".join(fillers), value))
        sides.append(tuple(side))
    return QuestionSet("planted", *sides)


def save_planted(place: Path) -> str:
    """The model as a local folder."""
    planted().hf.save_pretrained(place)
    planted().tokenizer.save_pretrained(place)
    return str(place)


def records(count: int = 60) -> list[dict]:
    """In the layout of CogQA: one part with a value to copy, or one without."""
    rng = random.Random(0)
    made = []
    for number in range(count):
        words, value = rng.choices(FILLERS, k=7), rng.choice(VALUES)
        if number % 2:
            words[rng.randrange(7)] = value
        label, answer = ("Retrieval", value) if number % 2 else ("Knowledge Recall", "d0")
        part = {"subquestion": " ".join(words), "answer": answer, "cognitive_skill": label}
        made.append({"question": f"q{number}", "answer": answer, "generated": [part]})
    return made
