"""Tokenizers that split years in the ways that matter, made on the spot from the words of the built-in tasks."""

from functools import cache

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from headcount.tasks import docstring, greater_than, ioi

SPLITS = {
    "pairs": pre_tokenizers.Split(Regex(r" ?\d{2}"), "isolated"),  # 1732 -> 17|32, as GPT-2 does
    "digits": pre_tokenizers.Digits(individual_digits=True),  # 1|7|3|2, as SmolLM2 does
    "triples": pre_tokenizers.Split(Regex(r"\d{1,3}"), "isolated"),  # 173|2, as Llama-3 does
}


@cache
def make_tokenizer(style: str, bos: bool = False) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([SPLITS[style], pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=6000, special_tokens=["<s>", "</s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(_text(), trainer)
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="</s>")


WORDS = "the a went to park gave ball and saw year from When Mary John Anna Tom".split()


@cache
def word_tokenizer(bos: bool = False) -> PreTrainedTokenizerFast:
    """A token a word, few enough for the tiny models of every family (64 tokens)."""
    named = ["<s>", "</s>", "<pad>", "<unk>", *WORDS]
    vocabulary = {word: place for place, word in enumerate([*named, *(f"w{i}" for i in range(64 - len(named)))])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>")


def _text() -> list[str]:
    words = [*ioi.NAMES, *ioi.PLACES, *ioi.THINGS, *docstring.ARGUMENTS, *greater_than.NOUNS]
    lines = [f"We saw {word}, {word} and {word}" for word in words for _ in range(3)]
    lines += [f"the year {year} to the year {year}" for year in range(1100, 1800)]
    return [*lines, *ioi.TEMPLATES, *greater_than.TEMPLATES]
