"""A tiny random model of every family that we support, large enough in its weights for heads to matter."""

import copy
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    GPT2Config,
    GPTJConfig,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    Olmo2Config,
    OlmoConfig,
    OPTConfig,
    Phi3Config,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen2Config,
    Qwen3Config,
)

import headcount as hc
from tokenizers_for_tests import word_tokenizer

VOCABULARY = 64
SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
    "intermediate_size": 48, "max_position_embeddings": 64, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2,
    "tie_word_embeddings": False,
}  # fmt: skip
GROUPED = {**SIZES, "num_key_value_heads": 2}

CONFIGS: dict[str, Callable[[], PretrainedConfig]] = {
    "gpt2": lambda: GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=3, n_head=4, n_positions=64, bos_token_id=0, eos_token_id=1
    ),
    "gpt_neox": lambda: GPTNeoXConfig(**SIZES, rotary_pct=0.5),
    "gptj": lambda: GPTJConfig(
        vocab_size=VOCABULARY,
        n_embd=32,
        n_layer=3,
        n_head=4,
        n_positions=64,
        rotary_dim=4,
        bos_token_id=0,
        eos_token_id=1,
        tie_word_embeddings=False,
    ),
    "opt": lambda: OPTConfig(**{**SIZES, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    "llama": lambda: LlamaConfig(**SIZES, num_key_value_heads=4),
    "llama-gqa": lambda: LlamaConfig(**GROUPED),
    "mistral": lambda: MistralConfig(**GROUPED, head_dim=8, sliding_window=6),
    "qwen2": lambda: Qwen2Config(**GROUPED),
    "qwen3": lambda: Qwen3Config(**GROUPED, head_dim=12),
    "olmo": lambda: OlmoConfig(**SIZES, clip_qkv=2.0),
    "olmo2": lambda: Olmo2Config(**GROUPED),
    "gemma": lambda: GemmaConfig(**GROUPED, head_dim=12),
    "gemma2": lambda: Gemma2Config(**GROUPED, head_dim=12, sliding_window=6, query_pre_attn_scalar=12),
    "gemma3": lambda: Gemma3TextConfig(**GROUPED, head_dim=12, sliding_window=6, query_pre_attn_scalar=12),
    "phi3": lambda: Phi3Config(**GROUPED),
}
FAMILIES = tuple(CONFIGS)
SENTENCE = "When Mary and John went to the park John gave the ball to"


def tiny(family: str, dtype: torch.dtype = torch.float32, layers: int = 3) -> hc.Model:
    """The same random weights on every call, in a module of the caller's own. Two layers take a third less time, and
    have all that may stand between two layers."""
    hf, generator_state = _drawn(family, dtype, layers)
    torch.set_rng_state(generator_state)
    return hc.load(_copied(hf), name=family)


def with_words(family: str) -> hc.Model:
    """One that reads a token a word, among them those of `SENTENCE`."""
    return replace(tiny(family), tokenizer=word_tokenizer())


def reading(tokenizer: PreTrainedTokenizerBase, name: str) -> hc.Model:
    """One that knows as many tokens as a tokenizer has."""
    hf = tiny("llama").hf
    hf.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    return hc.load(hf, tokenizer=tokenizer, name=name)


def _copied(hf: PreTrainedModel) -> PreTrainedModel:
    """What `deepcopy` gives, but for a look into the dictionaries for hooks: each module has eleven, all empty."""
    empty = [
        each for module in hf.modules() for each in vars(module).values() if isinstance(each, OrderedDict) and not each
    ]
    return copy.deepcopy(hf, {id(each): OrderedDict() for each in empty})


@cache
def _drawn(family: str, dtype: torch.dtype, layers: int) -> tuple[PreTrainedModel, torch.Tensor]:
    """Initialised once, which takes longer than many tests; and where that leaves torch's random numbers."""
    torch.manual_seed(0)
    config = CONFIGS[family]()
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]
    hf = AutoModelForCausalLM.from_config(config, dtype=dtype)
    with torch.no_grad():
        for parameter in hf.parameters():
            # Norm gains and biases move too, so that no test passes because they are all one or zero.
            parameter.add_(torch.randn_like(parameter) * (0.15 if parameter.dim() > 1 else 0.1))
    return hf, torch.get_rng_state()


def six_heads(seed: int) -> hc.Model:
    """Two layers of three heads, few enough to try all 64 sets of them."""
    torch.manual_seed(seed)
    sizes = {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 64}
    config = GPT2Config(vocab_size=VOCABULARY, **sizes, bos_token_id=0, eos_token_id=1)
    hf = AutoModelForCausalLM.from_config(config, dtype=torch.float64)
    with torch.no_grad():
        for parameter in hf.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return hc.load(hf, name=f"six-{seed}")


def prompts(rows: int = 3, length: int = 10, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCABULARY, (rows, length), generator=generator)


def pairs(n: int = 6, seed: int = 0, lengths: tuple[int, ...] = (10, 8), same_start: int = 2) -> list[hc.Pair]:
    """Random pairs of mixed lengths that share their first tokens and their last one."""
    made = []
    for index in range(n):
        length = lengths[index % len(lengths)]
        clean, corrupt = prompts(2, length, seed=seed * 1000 + index).tolist()
        corrupt[:same_start], corrupt[-1] = clean[:same_start], clean[-1]
        answer, wrong = 5 + index, 30 + index
        made.append(hc.Pair(tuple(clean), tuple(corrupt), (answer,), (wrong,)))
    return made


def random_task(n: int = 6, metric: str = "logit_diff", lengths: tuple[int, ...] = (10, 8)) -> hc.Task:
    train, test = (tuple(pairs(n, seed, lengths)) for seed in (0, 1))
    return hc.Task("random", "Random", metric, train, test)
