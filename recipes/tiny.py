"""`make tiny`: train the bundled models `tiny` and `tiny-sparse` again, from nothing, on two cores.

text of tiny_text.py  ->  tokenizer  ->  a small GPT-2 from scratch  ->  its sparse twin by `headcount.sparsify`
"""

import argparse
import itertools
import json
import shutil
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tiny_text import FIRST, MIXTURE, Mixture, documents
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import headcount as hc
from headcount.core.progress import progress_bar
from headcount.models.bundled import HOME
from headcount.sparse.abilities import abilities
from headcount.sparse.allocator import keep_freed_memory

LENGTH = 128
RATE = 3e-3
FIRST_SHARE = 0.16
"""Of the steps, on shorter sequences of the first mixture."""
HEAD_DROPOUT = 0.2
DROPOUT_FROM, DROPOUT_TO = 0.24, 0.9
"""Between these shares of the steps heads are left out at random, so that work is spread over several. Not before
copying is whole: with dropout it is not learned."""
SPARSE = {
    "lr": 5e-4,
    "gate_lr": 0.04,
    "tolerance": 0.02,
    "sharpness": 4.0,
    "start": -3.5,
    "first_multiplier": 30.0,
    "cooldown": 0.4,
}
"""What sets the recipe of twins of `tiny` apart. (`tiny-sparse` also has the regulariser log-heads.)"""
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


def packed(
    tokenizer: PreTrainedTokenizerFast, seed: int, sequences: int, length: int = LENGTH, mixture: Mixture = MIXTURE
) -> torch.Tensor:
    ids: list[int] = []
    for document in documents(seed, mixture):
        ids += [*tokenizer(document)["input_ids"], tokenizer.eos_token_id]
        if len(ids) >= sequences * length:
            break
    return torch.tensor(ids[: sequences * length]).view(sequences, length)


def waves(positions: int, width: int) -> torch.Tensor:
    """Sines and cosines of falling frequency (Vaswani et al. 2017)."""
    angles = torch.arange(positions)[:, None] * 10_000 ** (-torch.arange(0, width, 2) / width)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class HeadDropout:
    """Leaves heads of a GPT-2 out while it trains, each for a whole sequence, and makes up for it in the others."""

    def __init__(self, model: GPT2LMHeadModel) -> None:
        self.heads, self.share = model.config.n_head, 0.0
        projections = [block.attn.c_proj for block in model.transformer.h]
        self.handles = [each.register_forward_pre_hook(self._drop) for each in projections]

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def _drop(self, _: torch.nn.Module, given: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        (mixed,) = given
        if not self.share:
            return given
        batch, tokens, width = mixed.shape
        kept = (torch.rand(batch, 1, self.heads, 1) >= self.share) / (1 - self.share)
        return ((mixed.view(batch, tokens, self.heads, -1) * kept).view(batch, tokens, width),)


def train_dense(tokenizer: PreTrainedTokenizerFast, steps: int, batch: int, seed: int, log: Path) -> GPT2LMHeadModel:
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=256, n_embd=128, n_layer=6, n_head=8, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0,
        initializer_range=0.08, bos_token_id=tokenizer.eos_token_id, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).train()
    dropout = HeadDropout(model)
    with torch.no_grad():  # Waves to begin with: neighbours are alike, which heads that look one back need to know.
        model.transformer.wpe.weight.copy_(0.1 * waves(config.n_positions, config.n_embd))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.01)
    speed = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps, pct_start=0.05)
    with progress_bar(steps) as bar, log.open("w") as file:
        bar.describe("tiny")
        for first in range(0, steps, 100):
            dropout.share = HEAD_DROPOUT * (DROPOUT_FROM * steps <= first < DROPOUT_TO * steps)
            # Fresh text all the way: no sequence is seen twice.
            short = first < FIRST_SHARE * steps
            shape = (200 * batch, LENGTH // 2, FIRST) if short else (100 * batch, LENGTH, MIXTURE)
            text = packed(tokenizer, seed * 100_000 + 1000 + first, *shape)
            for step, ids in enumerate(text.split(len(text) // 100)[: steps - first], first):
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
    dropout.remove()
    return model.eval()


def accuracies(model: hc.Model, n: int = 400, seed: int = 7) -> dict[str, float]:
    """Of the test splits of the four tasks."""
    tasks = [hc.task(name, model, n=n, seed=seed) for name in TASKS]
    return {name: round(found.accuracy, 4) for name, found in abilities(model, tasks).items()}


def write_dense(model: GPT2LMHeadModel, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    model.half().save_pretrained(out)
    tokenizer.save_pretrained(out)


def write_text(place: Path, seed: int, count: int) -> str:
    """The mixture again, from another seed, for post-training."""
    with place.open("w", encoding="utf-8") as file:
        for document in itertools.islice(documents(seed), count):
            file.write(json.dumps({"text": document}) + "\n")
    return str(place)


def sparsify(out: Path, steps: int, seed: int) -> hc.Evaluation:
    """The sparse twin of what lies in `tiny`, all weights trained."""
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        text = write_text(Path(scratch) / "mixture.jsonl", seed=500_000 + seed, count=100_000)
        same = {**SPARSE, "batch": 16, "length": LENGTH, "evaluate_sequences": 400}
        recipe = hc.Recipe(steps=steps, seed=seed, regulariser="log-heads", **same)
        found = hc.sparsify("tiny", [text], Path(scratch) / "result", recipe, tasks=TASKS, device="cpu")
        shutil.copytree(Path(scratch) / "result", out)
    weights = load_file(out / "model.safetensors")
    save_file({name: w.half() for name, w in weights.items()}, out / "model.safetensors", metadata={"format": "pt"})
    for shown in ("training.png", "report.html", "report.json"):
        (out / shown).unlink()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--sparse-steps", type=int, default=2500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("dense", "sparse"), help="train one of the two and leave the other")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    keep_freed_memory()
    if given.only != "sparse":
        tokenizer = make_tokenizer(given.seed)
        with tempfile.TemporaryDirectory() as scratch:
            log = Path(scratch) / "training.jsonl"
            model = train_dense(tokenizer, given.steps, batch=16, seed=given.seed, log=log)
            write_dense(model, tokenizer, HOME / "tiny")
            shutil.copy(log, HOME / "tiny")
        found = accuracies(hc.load("tiny"))
        (HOME / "tiny" / "README.md").write_text(card(given.steps, given.seed, found), encoding="utf-8")
        print("tiny:", found)
    if given.only == "dense":
        return
    evaluation = sparsify(HOME / "tiny-sparse", given.sparse_steps, given.seed)
    print(evaluation)
    print("tiny-sparse:", accuracies(hc.load("tiny-sparse")))


def card(steps: int, seed: int, found: dict[str, float]) -> str:
    rows = "\n".join(f"| {task} | {share:.1%} |" for task, share in found.items())
    return (
        "# tiny\n\nA GPT-2 of 6 layers with 8 heads, 128 wide, trained from scratch by `make tiny` on generated text"
        f" (recipes/tiny_text.py): {steps} steps of 16 x {LENGTH} tokens, seed {seed}. A model organism: it knows the"
        " four circuit tasks, whose frames are among its training text, and a few others, and nothing else. Apache-2.0,"
        f" like headcount.\n\n| task | accuracy on 200 test prompts |\n|---|---|\n{rows}\n"
    )


if __name__ == "__main__":
    main()
