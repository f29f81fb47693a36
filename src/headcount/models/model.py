"""A Hugging Face language model with what headcount knows about it. HF does all the maths."""

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from ..core.errors import HeadcountError
from ..core.keys import digest
from ..core.plain import quoted
from ..core.provenance import Facts
from .adapters import live_adapters
from .anatomy import Anatomy
from .changes import changing
from .plain_weights import device_of, is_plain, weights_in_memory
from .weights_hash import HashOfWeights

NO_SETTINGS = ("_name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures")
"""Of a config: where it came from, and what the weights themselves say."""
FEW_ROWS = range(5, 48)
"""With so many rows a CPU multiplies the unembedding by them faster than the other way round, by up to 2.5 times."""


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """What `headcount.load` returns: the HF module in `hf`, its tokenizer, and where its heads are."""

    name: str
    hf: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None
    anatomy: Anatomy
    no_tokenizer: str = ""
    """Why there is none, where one was looked for."""
    bos: bool = False
    """Whether prompts begin with the beginning-of-text token also where the tokenizer does not put it there."""

    def __repr__(self) -> str:
        return f"Model({self.name!r}, {type(self.hf).__name__}, {self.n_layers} layers of {self.n_heads} heads)"

    @property
    def n_layers(self) -> int:
        return self.anatomy.n_layers

    @property
    def n_heads(self) -> int:
        """Query heads in a layer."""
        return self.anatomy.n_heads

    @property
    def head_count(self) -> int:
        """Heads in the whole model."""
        return self.n_layers * self.n_heads

    @property
    def device(self) -> torch.device:
        """Where token ids go: the device of the embedding, also when `device_map` spreads the layers."""
        return device_of(self.hf.get_input_embeddings())

    @property
    def unembedding(self) -> nn.Module:
        module: nn.Module | None = self.hf.get_output_embeddings()
        if module is None:
            raise HeadcountError(
                f"{type(self.hf).__name__} has no unembedding; headcount needs a causal language model."
            )
        return module

    @property
    def context(self) -> int | None:
        """How many tokens the model takes, where it says so."""
        limit: int | None = getattr(self._text_config, "max_position_embeddings", None)
        return limit

    @property
    def vocabulary(self) -> int:
        """How many tokens the model knows."""
        return int(self._text_config.vocab_size)

    @cached_property
    def _text_config(self) -> Any:
        """Kept, as every prompt asks for it, and transformers looks for it as long as it takes to tokenise a word."""
        return self.hf.config.get_text_config()

    def logits(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """HF's own logits at every position, [batch, position, vocabulary]."""
        logits: Tensor = self.hf(input_ids=ids, attention_mask=attention_mask, use_cache=False).logits
        return logits

    @torch.no_grad()
    def read_prefix(self, ids: Tensor) -> DynamicCache:
        """The keys and values of a prefix, to be handed to `last_logits` by any number of runs that begin with it."""
        cache = self.empty_cache()
        self.run(ids, past_key_values=cache)
        return cache

    def empty_cache(self) -> DynamicCache:
        return DynamicCache(config=self.hf.config)

    def run(self, ids: Tensor, past_key_values: DynamicCache | None = None) -> None:
        """A forward pass for what hooks see of it; nothing is unembedded."""
        self.last_logits(ids, ids.new_empty(0), past_key_values)

    def last_logits(
        self,
        ids: Tensor,
        last: Tensor,
        past_key_values: DynamicCache | None = None,
        tokens: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Logits at one position of each row, [batch, vocabulary]; `last` holds the positions, of the first rows, or of
        the `rows` named. With `past_key_values`, ids and positions are those behind the prefix that was read. It grows
        in the run: give a copy (`repeated_prefix`) where it is needed again. Rows shorter than the batch are padded on
        the right: with causal attention no real token sees the padding, so no attention mask is needed. Only the wanted
        rows are unembedded, as one contiguous matrix (HF's `logits_to_keep` slices instead, which the CPU turns into a
        slow batched product). With `tokens` the logits are those of these token ids alone, [batch, token]."""
        rows = torch.arange(len(last), device=last.device) if rows is None else rows

        def gather(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            hidden = args[0]
            return (hidden[rows.to(hidden.device), last.to(hidden.device)].unsqueeze(1), *args[1:])

        with changing() as changes:
            changes.before(self.unembedding, gather)
            plain = is_plain(self.unembedding)  # or it is run as it is, with all its tokens
            if plain:
                changes.instead(self.unembedding, self._unembedding_of(tokens))
            logits: Tensor = self.hf(input_ids=ids, past_key_values=past_key_values, use_cache=False).logits
        return logits[:, 0] if plain or tokens is None else logits[:, 0, tokens.to(logits.device)]

    def _unembedding_of(self, tokens: Tensor | None) -> Callable[[Tensor], Tensor]:
        """The same logits from a faster product."""
        module = self.unembedding
        weight, bias = cast(Tensor, module.weight), cast(Tensor | None, getattr(module, "bias", None))
        if tokens is not None:
            weight, bias = weight[tokens.to(weight.device)], None if bias is None else bias[tokens.to(weight.device)]

        def forward(hidden: Tensor) -> Tensor:
            if weight.device.type != "cpu" or len(hidden) not in FEW_ROWS or bias is not None:
                return nn.functional.linear(hidden, weight, bias)
            return torch.mm(weight, hidden.flatten(0, 1).T).T.view(*hidden.shape[:2], -1)

        return forward

    def repeated_prefix(self, prefix: DynamicCache, times: int, first: int | None = None) -> DynamicCache:
        """A copy of what `read_prefix` gave, its rows again and again, for a batch that is repeated as often; or of its
        `first` rows."""
        copied = copy.copy(prefix)
        copied.layers = [copy.copy(layer) for layer in prefix.layers]  # rows are selected into tensors of their own
        rows = cast(Any, copied.layers[0]).keys.shape[0]
        copied.batch_select_indices(torch.arange(first or rows, device=self.device).repeat(times))
        return copied

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Token ids as text."""
        return str(self.require_tokenizer().decode(list(ids), skip_special_tokens=skip_special_tokens))

    def require_tokenizer(self) -> PreTrainedTokenizerBase:
        if self.tokenizer is None:
            why = f" ({self.no_tokenizer})" if self.no_tokenizer else ""
            raise HeadcountError(
                f"{self.name} was loaded without a tokenizer, and this needs one{why}."
                " Pass it: headcount.load(module, tokenizer=tokenizer)."
            )
        return self.tokenizer

    def encode(self, text: str) -> list[int]:
        """Token ids of a prompt, with the special tokens that the model's tokenizer puts in front."""
        ids = list(self.require_tokenizer()(text)["input_ids"])
        if text and not ids:
            raise HeadcountError(f"The tokenizer of {self.name} makes no tokens of {text[:40]!r}. Are its files there?")
        if ids and max(ids) >= self.vocabulary:
            raise HeadcountError(
                f"The tokenizer of {self.name} makes the token id {max(ids)} of {quoted(text, 40)}, and the model knows"
                f" {self.vocabulary} tokens. Is it the tokenizer of another model?"
            )
        # Some tokenizers close every text with an end token; a prompt must stay open.
        end = getattr(self.tokenizer, "eos_token_id", None)
        while len(ids) > 1 and ids[-1] == end:
            ids.pop()
        start = getattr(self.tokenizer, "bos_token_id", None)
        return [start, *ids] if self.bos and start is not None and ids[:1] != [start] else ids

    def prompt_ids(self, prompt: str | Sequence[int]) -> list[int]:
        """Token ids of one prompt: text, or ids already. An error where the model cannot read them."""
        try:
            ids = self.encode(prompt) if isinstance(prompt, str) else [int(token) for token in prompt]
        except (TypeError, ValueError) as error:
            raise HeadcountError(f"A prompt is a text or a list of token ids; got {quoted(prompt)}.") from error
        if not ids:
            raise HeadcountError("The prompt is empty; it must have at least one token.")
        if wrong := [token for token in ids if not 0 <= token < self.vocabulary]:
            raise HeadcountError(f"Token ids must lie between 0 and {self.vocabulary - 1}; {wrong[0]} does not.")
        if self.context and len(ids) > self.context:
            raise HeadcountError(f"The prompt has {len(ids)} tokens, but {self.name} takes {self.context} at most.")
        return ids

    def token_texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Each token as text; without a tokenizer its number."""
        return tuple(str(token) if self.tokenizer is None else self.decode([token]) for token in ids)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """No parameter gradients inside the block: activations only, at two thirds of the cost of a full backward."""
        with changing() as changes:
            for parameter in [parameter for parameter in self.hf.parameters() if parameter.requires_grad]:
                changes.set(parameter, "requires_grad", False)
            yield

    def facts(self) -> Facts:
        """What a number depends on: weights, configuration, precision, and how the model attends."""
        return {
            "name": self.name,
            "class": type(self.hf).__name__,
            "sha256": self.fingerprint,
            "dtype": str(self.hf.dtype).removeprefix("torch."),
            "device": self.device.type,
            "attention": self.hf.config._attn_implementation,
        }

    @property
    def fingerprint(self) -> str:
        """A hash of weights and configuration: the same model gets the same one wherever it was loaded from, and
        another one when either has changed since."""
        settings = {key: value for key, value in self.hf.config.to_dict().items() if key not in NO_SETTINGS}
        adapters = live_adapters(self.hf)
        facts = [self.weights_hash, json.loads(json.dumps(settings, default=str)), *([adapters] if adapters else [])]
        return digest(facts, 16)

    @property
    def weights_hash(self) -> str:
        """A hash of the class and the weights alone, by which the base of an adapter is known again."""
        return self._hashed.of(type(self.hf).__name__, weights_in_memory(self.hf))

    @cached_property
    def _hashed(self) -> HashOfWeights:
        return HashOfWeights()


def require_model(model: object) -> None:
    """A name is loaded first."""
    if not isinstance(model, Model):
        raise HeadcountError(f"A model is what headcount.load(name) gives; got {quoted(model)}.")
