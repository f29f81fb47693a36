"""Compile small RASP programs with Tracr into transformers whose circuits are known, and keep them for tests and for
`make rankings`. Run once, in an environment of its own, since nothing else here needs JAX:

    python3 -m venv /tmp/tracr && /tmp/tracr/bin/pip install tracr-pypi==1.0.0 jax dm-haiku safetensors
    /tmp/tracr/bin/python benchmarks/compile_programs.py

Tracr: Lindner et al. 2023, arXiv 2301.05062, Apache-2.0. The programs and prompts are our own, and so are the weights.
Every program runs causally, over the same eight tokens, and answers at the last one:

    recall    what followed the last token where it stood before
    echo      whether the two tokens before the last one are the same
    count     how many tokens up to here have been seen as often as the last one, each counted where it stands
    balance   whether brackets are level here and never were below: heads, an MLP, a head, an MLP in a row

`together` is all four side by side in one model, each in directions, heads and MLP units of its own. On a task of one
of them the other three are decoys that are at work and change with the prompt, and which the answer does not depend on.
"""

import json
import random
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
REFERENCES = 16
Arrays = dict[str, np.ndarray]


def recall() -> rasp.SOp:
    before = rasp.Aggregate(rasp.Select(rasp.indices, rasp.indices, lambda key, query: key == query - 1), rasp.tokens)
    return rasp.Aggregate(rasp.Select(before.named("before"), rasp.tokens, rasp.Comparison.EQ), rasp.tokens)


def echo() -> rasp.SOp:
    one, two = (
        rasp.Aggregate(rasp.Select(rasp.indices, rasp.indices, lambda k, q, back=back: k == q - back), rasp.tokens)
        for back in (1, 2)
    )
    return rasp.SequenceMap(lambda x, y: "same" if x == y else "other", one.named("one-back"), two.named("two-back"))


def count() -> rasp.SOp:
    seen = rasp.SelectorWidth(rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.EQ)).named("seen")
    return rasp.SelectorWidth(rasp.Select(seen, seen, rasp.Comparison.EQ))


def balance() -> rasp.SOp:
    everything = rasp.Select(rasp.indices, rasp.indices, rasp.Comparison.TRUE)
    step = rasp.numerical(rasp.Map(lambda token: {"(": 1, ")": -1}.get(token, 0), rasp.tokens))
    height = rasp.numerical(rasp.Aggregate(everything, step, default=0)).named("height")
    below = rasp.numerical(rasp.Map(lambda x: 1 if x < 0 else 0, height))
    ever_below = rasp.numerical(rasp.Aggregate(everything, below, default=0)).named("ever-below")
    level = rasp.categorical(rasp.Map(lambda x: x == 0, height)).named("level")
    never = rasp.categorical(rasp.Map(lambda x: x == 0, ever_below)).named("never")
    return rasp.SequenceMap(lambda x, y: "level" if x and y else "uneven", level, never)


PROGRAMS = {"recall": recall, "echo": echo, "count": count, "balance": balance}


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
    answers = {label.split(":", 1)[1]: place for place, label in enumerate(directions) if label.startswith(f"{name}:")}
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


def together(parts: dict[str, Compiled]) -> Compiled:
    """Side by side. Heads are padded to one size, and queries scaled by what the attention then divides too much by."""
    vocabulary = list(dict.fromkeys(token for part in parts.values() for token in part.vocabulary))
    directions = [f"{name} {direction}" for name, part in parts.items() for direction in part.directions]
    layers, size = max(part.layers for part in parts.values()), max(part.head_size for part in parts.values())

    def block(pieces: list[np.ndarray]) -> np.ndarray:
        """Block-diagonal."""
        found = np.zeros(np.sum([piece.shape for piece in pieces], axis=0), dtype=np.float32)
        row = column = 0
        for piece in pieces:
            found[row : row + piece.shape[0], column : column + piece.shape[1]] = piece
            row, column = row + piece.shape[0], column + piece.shape[1]
        return found

    def by_name(part: Compiled, rows: np.ndarray) -> np.ndarray:
        found = np.zeros((len(vocabulary), rows.shape[1]), dtype=np.float32)
        found[[vocabulary.index(token) for token in part.vocabulary]] = rows
        return found

    def padded(part: Compiled, rows: np.ndarray) -> np.ndarray:
        """[head * size, …] with heads of the common size."""
        heads = rows.reshape(part.heads, part.head_size, *rows.shape[1:])
        more = [(0, 0), (0, size - part.head_size), *[(0, 0)] * (rows.ndim - 1)]
        return np.pad(heads, more).reshape(part.heads * size, *rows.shape[1:])

    def of(part: Compiled, layer: int, name: str) -> np.ndarray:
        """Of a layer; nothing where the program has ended before."""
        found = part.arrays.get(f"layers.{layer}.{name}")
        found = np.zeros_like(part.arrays[f"layers.0.{name}"]) if found is None else found
        if name.startswith("q"):
            found = found * np.sqrt(size / part.head_size)
        if name[0] in "qkv":
            return padded(part, found)
        return padded(part, found.T).T if name == "o.weight" else found

    every = list(parts.values())
    arrays = {key: np.concatenate([by_name(p, p.arrays[key]) for p in every], axis=1) for key in ("embed", "unembed")}
    arrays["positions"] = np.concatenate([part.arrays["positions"] for part in every], axis=1)
    for layer in range(layers):
        for short in ("q", "k", "v", "o", "in", "out"):
            arrays[f"layers.{layer}.{short}.weight"] = block([of(part, layer, f"{short}.weight") for part in every])
            arrays[f"layers.{layer}.{short}.bias"] = np.concatenate([of(p, layer, f"{short}.bias") for p in every])
    return Compiled(vocabulary, directions, sum(part.heads for part in every), size, arrays)


# ---------------------------------------------------------------------------------------------------------------------
# Prompts


def prompts(name: str, program: rasp.SOp) -> list[tuple[str, str]]:
    """(prompt, answer), all different; at most as many of one answer as of all others together."""
    rng = random.Random(name)
    found: dict[str, str] = {}
    while len(found) < 2 * PAIRS:
        # Brackets are drawn more often where they matter.
        drawn = rng.choices(TOKENS, weights=[6, 6, 1, 1, 1, 1, 1, 1] if name == "balance" else None, k=LENGTH)
        # What followed the last token is one thing if it stood before exactly once.
        if name == "recall" and drawn[:-1].count(drawn[-1]) != 1:
            continue
        answer = str(causal_eval.evaluate(program, drawn)[-1])
        of_its_kind = sum(other == answer for other in found.values())
        if of_its_kind <= len(found) - of_its_kind:
            found["".join(drawn)] = answer
    return list(found.items())


def pairs(drawn: list[tuple[str, str]]) -> list[list[str]]:
    """[clean, counterfactual, answer, wrong]: two prompts that have nothing in common, not even their answer."""
    left, made = list(drawn), []
    while left and len(made) < PAIRS:
        clean, answer = left.pop(0)
        other = next((place for place, (_, wrong) in enumerate(left) if wrong != answer), None)
        if other is not None:
            corrupt, wrong = left.pop(other)
            made.append([clean, corrupt, answer, wrong])
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


def save(name: str, compiled: Compiled, tasks: dict[str, list[list[str]]], references: Arrays) -> None:
    folder = HOME / name
    folder.mkdir(parents=True, exist_ok=True)
    facts = {"heads": compiled.heads, "head_size": compiled.head_size, "vocabulary": compiled.vocabulary}
    facts |= {"tasks": {task: [" ".join(pair) for pair in listed] for task, listed in tasks.items()}}
    facts |= {"directions": compiled.directions}
    (folder / "program.json").write_text(json.dumps(facts, indent=0) + "\n")
    arrays = {key: np.ascontiguousarray(value, dtype=np.float32) for key, value in compiled.arrays.items()}
    save_file(arrays, folder / "weights.safetensors")
    save_file({key: np.ascontiguousarray(value) for key, value in references.items()}, folder / "reference.safetensors")
    size = sum(array.nbytes for array in arrays.values()) // 1000
    print(f"{name}: {compiled.layers} layers of {compiled.heads} heads, {len(compiled.directions)} wide, {size} kB")


def main() -> None:
    parts, tasks, references = {}, {}, {}
    for name in PROGRAMS:
        compiled, (program, model) = compile_program(name)
        drawn = prompts(name, program)
        parts[name], tasks[name] = compiled, pairs(drawn)
        references[name] = reference(name, compiled, program, model, drawn)
        save(name, compiled, {name: tasks[name]}, references[name])
    save("together", together(parts), tasks, {})


if __name__ == "__main__":
    main()
