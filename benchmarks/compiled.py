"""Compiled programs as Hugging Face models. Their transformer has learned positions, ReLU and no norms: an OPT whose
norms are replaced by identities. `compile_programs.py` made the weights.

`together` is all programs side by side in one model, each in directions, heads and MLP units of its own. On a task of
one of them the others are decoys: they are at work and change with the prompt, and the answer does not depend on them.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import OPTConfig, OPTForCausalLM

import headcount as hc

HOME = Path(__file__).parent.parent / "tests" / "golden" / "compiled"
ALONE, TOGETHER = ("recall", "echo", "count", "chain"), "together"
NAMES = (*ALONE, TOGETHER)
BOS = "BOS"
OPT_OFFSET = 2  # OPT's table of positions begins with two rows that are never read
MODULES = {
    "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.out_proj",
    "in": "fc1", "out": "fc2",
}  # fmt: skip
PARTS = ("weight", "bias")


@dataclass(frozen=True)
class Program:
    name: str
    vocabulary: tuple[str, ...]
    heads: int
    head_size: int
    arrays: dict[str, Tensor]  # as nn.Linear has them, [out, in]; those of heads lie head by head
    pairs: dict[str, list[str]]
    """Task -> its pairs: clean prompt, counterfactual, answer and wrong answer, with a space between them."""

    @property
    def layers(self) -> int:
        return sum(name.endswith("in.weight") for name in self.arrays)

    def reference(self) -> dict[str, Tensor]:
        """Token ids, and Tracr's own outputs for them: `ids` [prompt, position], `logits` [prompt, position, token]."""
        return load_file(HOME / self.name / "reference.safetensors")

    def ids(self, prompt: str) -> tuple[int, ...]:
        return tuple(self.vocabulary.index(token) for token in (BOS, *prompt))

    def task(self, name: str, n: int = 120) -> hc.Task:
        """The first n pairs of a task, every other one for training."""
        pairs = []
        for line in self.pairs[name][:n]:
            clean, corrupt, *answers = line.split(" ")
            right, wrong = (self.vocabulary.index(token) for token in answers)
            pairs.append(hc.Pair(self.ids(clean), self.ids(corrupt), (right,), (wrong,)))
        return hc.Task(name, name.capitalize(), "logit_diff", tuple(pairs[::2]), tuple(pairs[1::2]))

    def widened(self, size: int) -> dict[str, Tensor]:
        """The arrays with heads of another size. Attention then divides by more, for which queries make up."""

        def wide(rows: Tensor) -> Tensor:
            """[head * own size, …] -> [head * size, …]."""
            found = rows.new_zeros(self.heads, size, *rows.shape[1:])
            found[:, : self.head_size] = rows.unflatten(0, (self.heads, self.head_size))
            return found.flatten(0, 1)

        made = dict(self.arrays)
        for name, values in self.arrays.items():
            role = name.split(".", 2)[-1]
            if role[:2] in ("q.", "k.", "v."):
                made[name] = wide(values) * (math.sqrt(size / self.head_size) if role[0] == "q" else 1)
            elif role == "o.weight":
                made[name] = wide(values.T).T
        return made

    def load(self, dtype: torch.dtype = torch.float32) -> hc.Model:
        """OPT wants the heads of a layer to be as wide as the stream: both are padded with zeros till they are."""
        size = max(self.head_size, math.ceil(self.arrays["embed"].shape[1] / self.heads))
        arrays, width = self.widened(size), self.heads * size
        config = OPTConfig(
            vocab_size=len(self.vocabulary), hidden_size=width, word_embed_proj_dim=width,
            num_hidden_layers=self.layers, num_attention_heads=self.heads,
            ffn_dim=len(arrays["layers.0.in.bias"]), activation_function="relu",
            max_position_embeddings=len(arrays["positions"]), dropout=0.0, attention_dropout=0.0,
            tie_word_embeddings=False, pad_token_id=None, bos_token_id=0, eos_token_id=None,
        )  # fmt: skip
        hf = OPTForCausalLM(config)
        hf.model.decoder.final_layer_norm = nn.Identity()
        for layer in hf.model.decoder.layers:
            layer.self_attn_layer_norm = layer.final_layer_norm = nn.Identity()
        state = {name: torch.zeros_like(tensor) for name, tensor in hf.state_dict().items()}
        places = {"embed": "embed_tokens.weight", "positions": "embed_positions.weight"}
        for layer in range(self.layers):
            for short, module in MODULES.items():
                places |= {f"layers.{layer}.{short}.{kind}": f"layers.{layer}.{module}.{kind}" for kind in PARTS}
        targets = {name: state[f"model.decoder.{place}"] for name, place in places.items()}
        targets |= {"positions": targets["positions"][OPT_OFFSET:], "unembed": state["lm_head.weight"]}
        for name, target in targets.items():
            target[tuple(map(slice, arrays[name].shape))] = arrays[name]  # the first rows and columns
        hf.load_state_dict(state)
        return hc.load(hf.to(dtype), name=self.name)


@cache
def program(name: str) -> Program:
    """A folder of `tests/golden/compiled`, or all of them together."""
    if name == TOGETHER:
        return side_by_side([program(each) for each in ALONE])
    facts = json.loads((HOME / name / "program.json").read_text())
    arrays = load_file(HOME / name / "weights.safetensors")
    return Program(name, tuple(facts["vocabulary"]), facts["heads"], facts["head_size"], arrays, {name: facts["pairs"]})


def side_by_side(programs: Sequence[Program]) -> Program:
    vocabulary = tuple(dict.fromkeys(token for each in programs for token in each.vocabulary))
    size = max(each.head_size for each in programs)
    parts = [each.widened(size) for each in programs]

    def by_token(each: Program, rows: Tensor) -> Tensor:
        """Rows of its own tokens, among all."""
        found = rows.new_zeros(len(vocabulary), rows.shape[1])
        found[[vocabulary.index(token) for token in each.vocabulary]] = rows
        return found

    def of(part: dict[str, Tensor], layer: int, name: str) -> Tensor:
        """Of a layer; zeros where the program has ended before."""
        found = part.get(f"layers.{layer}.{name}")
        return torch.zeros_like(part[f"layers.0.{name}"]) if found is None else found

    arrays = {"positions": torch.cat([part["positions"] for part in parts], dim=1)}
    for name in ("embed", "unembed"):
        rows = [by_token(each, part[name]) for each, part in zip(programs, parts, strict=True)]
        arrays[name] = torch.cat(rows, dim=1)
    for layer in range(max(each.layers for each in programs)):
        for short in MODULES:
            weights, biases = ([of(part, layer, f"{short}.{kind}") for part in parts] for kind in PARTS)
            arrays[f"layers.{layer}.{short}.weight"] = torch.block_diag(*weights)
            arrays[f"layers.{layer}.{short}.bias"] = torch.cat(biases)
    pairs = {name: listed for each in programs for name, listed in each.pairs.items()}
    return Program(TOGETHER, vocabulary, sum(each.heads for each in programs), size, arrays, pairs)
