"""Compile small RASP programs with Tracr into transformers whose circuits are known, and keep them for tests and for
`make rankings`. Run once, in an environment of its own, since nothing else here needs JAX:

    python3 -m venv /tmp/tracr && /tmp/tracr/bin/pip install tracr-pypi==1.0.0 jax dm-haiku safetensors
    /tmp/tracr/bin/python benchmarks/compile_programs.py

Tracr: Lindner et al. 2023, arXiv 2301.05062, Apache-2.0. The programs and prompts are our own, and so are the weights.
Every program runs causally, over the same eight tokens, and answers at the last one, with tokens of its own (recall=a):

    recall    what followed the last token where it stood before
    echo      whether the two tokens before the last one are the same
    count     how many tokens up to here have been seen as often as the last one, each counted where it stands
    chain     what followed what followed the last token
"""

import json
import random
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tracr.compiler import compiling
from tracr.rasp import causal_eval, rasp

HOME = Path(__file__).parent.parent / "tests" / "golden" / "compiled"
BOS, PAD = "BOS", "PAD"
TOKENS = ["(", ")", "a", "b", "c", "d", "e", "f"]
CONTEXT = 11  # tokens behind BOS
LENGTH = 8  # of the prompts, behind BOS
PAIRS = 120
SPARE = 40  # prompts, as the last ones may all have the same answer
REFERENCES = 16
Arrays = dict[str, np.ndarray]


def before() -> rasp.SOp:
    """The token before; the first has none."""
    return rasp.Aggregate(
        rasp.Select(rasp.indices, rasp.indices, lambda key, query: key == query - 1), rasp.tokens
    ).named("before")


def following(tokens: rasp.SOp, known: rasp.SOp) -> rasp.SOp:
    """What stands behind each of the tokens, of all that is seen; `known` are the tokens before."""
    return rasp.Aggregate(rasp.Select(known, tokens, lambda key, query: key is not None and key == query), rasp.tokens)


def recall() -> rasp.SOp:
    return following(rasp.tokens, before())


def chain() -> rasp.SOp:
    known = before()
    return following(following(rasp.tokens, known).named("first"), known)


def echo() -> rasp.SOp:
    one, two = (
        rasp.Aggregate(rasp.Select(rasp.indices, rasp.indices, lambda k, q, back=back: k == q - back), rasp.tokens)
        for back in (1, 2)
    )
    return rasp.SequenceMap(lambda x, y: "same" if x == y else "other", one.named("one-back"), two.named("two-back"))


def count() -> rasp.SOp:
    seen = rasp.SelectorWidth(rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.EQ)).named("seen")
    return rasp.SelectorWidth(rasp.Select(seen, seen, rasp.Comparison.EQ))


PROGRAMS = {"recall": recall, "echo": echo, "count": count, "chain": chain}


@dataclass(frozen=True)
class Compiled:
    """Arrays as `torch.nn.Linear` has them, [out, in]; those of heads lie head by head."""

    vocabulary: list[str]
    directions: list[str]  # what each direction of the residual stream stands for
    heads: int
    head_size: int
    arrays: Arrays

    @property
    def layers(self) -> int:
        return len([name for name in self.arrays if name.endswith("in.weight")])


# ---------------------------------------------------------------------------------------------------------------------
# From Tracr


def compile_program(name: str) -> tuple[Compiled, object]:
    program = PROGRAMS[name]().named(name)
    model = compiling.compile_rasp_to_model(
        program, vocab=set(TOKENS), max_seq_len=CONTEXT, causal=True, compiler_bos=BOS, compiler_pad=PAD
    )
    if model.model_config.layer_norm or model.model_config.activation_function.__name__ != "relu":
        raise SystemExit("Tracr should compile to ReLU without norms.")
    params = {key: {leaf: np.asarray(value) for leaf, value in part.items()} for key, part in model.params.items()}
    embedded, directions = params["token_embed"]["embeddings"], [str(label) for label in model.residual_labels]
    # Tracr numbers the names of a program's parts: recall_1:a is the direction of the answer a.
    labels = [re.fullmatch(rf"{name}_\d+:(.+)", direction) for direction in directions]
    answers = {f"{name}={label[1]}": place for place, label in enumerate(labels) if label}
    vocabulary = list(dict.fromkeys([BOS, PAD, *TOKENS, *sorted(answers)]))
    rows = np.zeros((2, len(vocabulary), len(directions)), dtype=np.float32)
    for token, row in model.input_encoder.encoding_map.items():
        rows[0, vocabulary.index(token)] = embedded[row]
    for token, place in answers.items():
        rows[1, vocabulary.index(token), place] = 1
    arrays = {"embed": rows[0], "positions": params["pos_embed"]["embeddings"], "unembed": rows[1]}
    parts = {"q": "attn/query", "k": "attn/key", "v": "attn/value", "o": "attn/linear"}
    parts |= {"in": "mlp/linear_1", "out": "mlp/linear_2"}
    for layer in range(model.model_config.num_layers):
        for short, place in parts.items():
            found = params[f"transformer/layer_{layer}/{place}"]
            arrays[f"layers.{layer}.{short}.weight"] = found["w"].T
            arrays[f"layers.{layer}.{short}.bias"] = found["b"]
    config = model.model_config
    return Compiled(vocabulary, directions, config.num_heads, config.key_size, arrays), (program, model)


# ---------------------------------------------------------------------------------------------------------------------
# Prompts


def prompts(name: str, program: rasp.SOp) -> list[tuple[str, str]]:
    """(prompt, answer), all different; at most as many of one answer as of all others together."""
    rng = random.Random(name)
    found: dict[str, str] = {}
    while len(found) < 2 * PAIRS + SPARE:
        drawn = rng.choices(TOKENS, k=LENGTH)
        try:
            answer = str(causal_eval.evaluate(program, drawn)[-1])
        except ValueError:  # a token stood before more than once, so that what followed it is two things
            continue
        if answer == "None":
            continue
        of_its_kind = sum(other == answer for other in found.values())
        if of_its_kind <= len(found) - of_its_kind:
            found["".join(drawn)] = answer
    return rng.sample(list(found.items()), len(found))


def pairs(name: str, drawn: list[tuple[str, str]]) -> list[list[str]]:
    """[clean, counterfactual, answer, wrong]: two prompts that have nothing in common, not even their answer."""
    left, made = list(drawn), []
    while left and len(made) < PAIRS:
        clean, answer = left.pop(0)
        other = next((place for place, (_, wrong) in enumerate(left) if wrong != answer), None)
        if other is not None:
            corrupt, wrong = left.pop(other)
            made.append([clean, corrupt, f"{name}={answer}", f"{name}={wrong}"])
    return made


def reference(name: str, compiled: Compiled, program: rasp.SOp, model: object, drawn: list[tuple[str, str]]) -> Arrays:
    """Tracr's own outputs at every position: its residual stream, read along the directions of the answer."""
    ids, logits = [], []
    for prompt, answer in drawn[:REFERENCES]:
        out = model.apply([BOS, *prompt])
        if str(out.decoded[-1]) != answer or str(causal_eval.evaluate(program, list(prompt))[-1]) != answer:
            raise SystemExit(f"{name}: {prompt} is {answer}, and Tracr says {out.decoded[-1]}.")
        ids.append([compiled.vocabulary.index(token) for token in (BOS, *prompt)])
        logits.append(np.asarray(out.transformer_output)[0] @ compiled.arrays["unembed"].T)
    return {"ids": np.array(ids, dtype=np.int64), "logits": np.stack(logits).astype(np.float32)}


def save(name: str, compiled: Compiled, made: list[list[str]], references: Arrays) -> None:
    folder = HOME / name
    folder.mkdir(parents=True, exist_ok=True)
    facts = {"heads": compiled.heads, "head_size": compiled.head_size, "vocabulary": compiled.vocabulary}
    facts |= {"directions": compiled.directions, "pairs": [" ".join(pair) for pair in made]}
    (folder / "program.json").write_text(json.dumps(facts, indent=0) + "\n")
    arrays = {key: np.ascontiguousarray(value, dtype=np.float32) for key, value in compiled.arrays.items()}
    save_file(arrays, folder / "weights.safetensors")
    save_file({key: np.ascontiguousarray(value) for key, value in references.items()}, folder / "reference.safetensors")
    size = sum(array.nbytes for array in arrays.values()) // 1000
    print(f"{name}: {compiled.layers} layers of {compiled.heads} heads, {len(compiled.directions)} wide, {size} kB")


def main() -> None:
    for name in PROGRAMS:
        compiled, (program, model) = compile_program(name)
        drawn = prompts(name, program)
        save(name, compiled, pairs(name, drawn), reference(name, compiled, program, model, drawn))


if __name__ == "__main__":
    main()
