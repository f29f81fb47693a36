"""`make tiny`: train the bundled models `tiny` and `tiny-sparse` again, from nothing, on two cores.

text of tiny_text.py  ->  tokenizer  ->  a small GPT-2 from scratch  ->  its sparse twin by `headcount.sparsify`
"""

import itertools
import json
from pathlib import Path

import torch
from tiny_text import documents
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import headcount as hc
from headcount.cuts import Filler
from headcount.measure import Meter
from headcount.progress import progress_bar

LENGTH = 128
RATE = 3e-3
TASKS = ("greater-than", "ioi", "docstring", "ioi-long")


def make_tokenizer(seed: int) -> PreTrainedTokenizerFast:
    """Whole words, and numbers in pairs of digits (1732 -> 17|32, as GPT-2 splits most years)."""
    tokenizer = Tokenizer(models.BPE())
    pairs = pre_tokenizers.Split(Regex(r" ?\d{2}"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pairs, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1600, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(itertools.islice(documents(seed), 60_000), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>")


def packed(tokenizer: PreTrainedTokenizerFast, seed: int, sequences: int) -> torch.Tensor:
    ids: list[int] = []
    for document in documents(seed):
        ids += [*tokenizer(document)["input_ids"], tokenizer.eos_token_id]
        if len(ids) >= sequences * LENGTH:
            break
    return torch.tensor(ids[: sequences * LENGTH]).view(sequences, LENGTH)


def waves(positions: int, width: int) -> torch.Tensor:
    """Sines and cosines of falling frequency (Vaswani et al. 2017)."""
    angles = torch.arange(positions)[:, None] * 10_000 ** (-torch.arange(0, width, 2) / width)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def train_dense(tokenizer: PreTrainedTokenizerFast, steps: int, batch: int, seed: int, log: Path) -> GPT2LMHeadModel:
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=256, n_embd=128, n_layer=4, n_head=8, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=tokenizer.eos_token_id, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    with torch.no_grad():  # Waves to begin with: neighbours are alike, which heads that look one back need to know.
        model.transformer.wpe.weight.copy_(0.1 * waves(config.n_positions, config.n_embd))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.01)
    speed = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps, pct_start=0.05)
    with progress_bar(steps) as bar, log.open("w") as file:
        bar.describe("tiny")
        for first in range(0, steps, 100):
            # Fresh text all the way: no sequence is seen twice.
            text = packed(tokenizer, seed * 100_000 + 1000 + first, 100 * batch)
            for step, ids in enumerate(text.split(batch)[: steps - first], first):
                loss = model(input_ids=ids, labels=ids).loss
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                speed.step()
                bar.advance(1)
                if step % 20 == 0:
                    bar.note(f"loss {float(loss.detach()):.3f}")
                    print(json.dumps({"step": step, "loss": float(loss.detach())}), file=file, flush=True)
    return model.eval()


def accuracies(model: hc.Model, n: int = 400, seed: int = 7) -> dict[str, float]:
    """Of the test splits of the four tasks."""
    found = {}
    for name in TASKS:
        task = hc.task(name, model, n=n, seed=seed)
        meter = Meter(model, task.test, Filler.prepare(model, "zero", examples=task.test, reference=task.train, seed=0))
        whole = torch.ones((1, model.n_layers, model.n_heads), dtype=torch.bool)
        found[name] = round(float(meter.measure(whole)["accuracy"].mean()), 4)
    return found
