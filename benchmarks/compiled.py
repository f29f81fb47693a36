"""Compiled programs as Hugging Face models. Their transformer has learned positions, ReLU and no norms: an OPT whose
norms are replaced by identities. `compile_programs.py` made the weights."""

import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import OPTConfig, OPTForCausalLM

import headcount as hc

HOME = Path(__file__).parent.parent / "tests" / "golden" / "compiled"
NAMES = ("recall", "echo", "count", "balance", "together")
BOS = "BOS"
OPT_OFFSET = 2  # OPT's table of positions begins with two rows that are never read
MODULES = {
    "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.out_proj",
    "in": "fc1", "out": "fc2",
}  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A folder of `tests/golden/compiled`."""

    name: str

    @cached_property
    def facts(self) -> dict[str, object]:
        found: dict[str, object] = json.loads((HOME / self.name / "program.json").read_text())
        return found

    @cached_property
    def vocabulary(self) -> list[str]:
        return self.facts["vocabulary"]

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self.facts["tasks"])

    def reference(self) -> dict[str, Tensor]:
        """Token ids, and Tracr's own outputs for them: `ids` [prompt, position], `logits` [prompt, position, token]."""
        return load_file(HOME / self.name / "reference.safetensors")

    def ids(self, prompt: str) -> tuple[int, ...]:
        return tuple(self.vocabulary.index(token) for token in (BOS, *prompt))

    def task(self, name: str, n: int = 120) -> hc.Task:
        """Its first n pairs, every other one for training."""
        listed = [line.split(" ") for line in self.facts["tasks"][name]][:n]
        pairs = [
            hc.Pair(self.ids(clean), self.ids(corrupt), *((self.vocabulary.index(x),) for x in (answer, wrong)))
            for clean, corrupt, answer, wrong in listed
        ]
        return hc.Task(name, name.capitalize(), "logit_diff", tuple(pairs[::2]), tuple(pairs[1::2]))

    def load(self, dtype: torch.dtype = torch.float32) -> hc.Model:
        """OPT wants heads that are as wide as the stream together. Both are padded with zeros till they are; queries
        are scaled by what the attention then divides too much by."""
        arrays = load_file(HOME / self.name / "weights.safetensors")
        heads, own_size = self.facts["heads"], self.facts["head_size"]
        size = max(own_size, math.ceil(arrays["embed"].shape[1] / heads))
        width, layers = heads * size, sum(name.endswith("in.weight") for name in arrays)
        config = OPTConfig(
            vocab_size=len(self.vocabulary), hidden_size=width, word_embed_proj_dim=width, num_hidden_layers=layers,
            num_attention_heads=heads, ffn_dim=len(arrays["layers.0.in.bias"]), activation_function="relu",
            max_position_embeddings=len(arrays["positions"]), dropout=0.0, attention_dropout=0.0,
            tie_word_embeddings=False, pad_token_id=None, bos_token_id=0, eos_token_id=None,
        )  # fmt: skip
        hf = OPTForCausalLM(config)
        without_norms(hf)
        state = {name: torch.zeros_like(tensor) for name, tensor in hf.state_dict().items()}

        def put(name: str, values: Tensor) -> None:
            """Into the first rows and columns."""
            state[name][tuple(slice(length) for length in values.shape)] = values

        def by_head(rows: Tensor) -> Tensor:
            """[head * own size, …] -> [head * size, …]."""
            wide = rows.new_zeros(heads, size, *rows.shape[1:])
            wide[:, :own_size] = rows.unflatten(0, (heads, own_size))
            return wide.flatten(0, 1)

        put("model.decoder.embed_tokens.weight", arrays["embed"])
        put("lm_head.weight", arrays["unembed"])
        state["model.decoder.embed_positions.weight"][OPT_OFFSET:, : arrays["positions"].shape[1]] = arrays["positions"]
        for layer in range(layers):
            for short, module in MODULES.items():
                for kind in ("weight", "bias"):
                    values = arrays[f"layers.{layer}.{short}.{kind}"]
                    if short in "qkv":
                        values = by_head(values) * (math.sqrt(size / own_size) if short == "q" else 1)
                    elif (short, kind) == ("o", "weight"):
                        values = by_head(values.T).T
                    put(f"model.decoder.layers.{layer}.{module}.{kind}", values)
        hf.load_state_dict(state)
        return hc.load(hf.to(dtype), name=self.name)


def without_norms(hf: OPTForCausalLM) -> None:
    hf.model.decoder.final_layer_norm = nn.Identity()
    for layer in hf.model.decoder.layers:
        layer.self_attn_layer_norm = layer.final_layer_norm = nn.Identity()
