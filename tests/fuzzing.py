"""A campaign of mutated inputs against every reader: python tests/fuzzing.py --count 20000 [--seed N] [--only N]

What must hold of each: it is taken, or refused in one sentence of at most 300 characters, with exit code 2. No
traceback, nothing that was not foreseen (exit code 1), no hang. Each case is made from the seed and its number alone.
"""

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from unittest import mock

from mutations import changed_bytes, changed_json, changed_value, strange
from sound_inputs import COGQA, COMMANDS, IDS, ITEMS, PAIRS, SETS, STUDIES

for name, value in {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TQDM_DISABLE": "1"}.items():
    os.environ.setdefault(name, value)
SECONDS = 60
SPENT: Counter[str] = Counter()  # CPU seconds by reader
OUTCOMES = ("taken", "refused")


class WrongError(Exception):
    """What must not happen."""


class Campaign:
    def __init__(self, home: Path, seed: int) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        import headcount as hc
        from families import CONFIGS
        from tokenizers_for_tests import make_tokenizer

        torch.manual_seed(0)
        self.home, self.seed, self.place = home, seed, home / "case"
        os.environ["HEADCOUNT_CACHE"] = str(home / "cache")
        tokenizer, config = make_tokenizer("digits"), CONFIGS["llama-gqa"]()
        config.vocab_size, config.max_position_embeddings, config.num_hidden_layers = len(tokenizer), 256, 2
        hf = AutoModelForCausalLM.from_config(config)
        hf.save_pretrained(home / "model")
        tokenizer.save_pretrained(home / "model")
        self.model = hc.load(home / "model")
        task = hc.task("ioi", self.model, n=4)
        hc.score(self.model, task).save(home / "scores")
        self._save_sparse(hf)
        self.readers = {
            "jsonl": (12, self.jsonl),
            "study": (8, self.study),
            "questions": (8, self.questions),
            "set": (10, self.known_set),
            "command": (8, self.command),
            "text": (5, self.text),
            "comet": (3, self.comet),
            "scores": (4, self.scores),
            "config": (2, self.config),
            "weights": (1, self.weights),
            "tokenizer": (1, self.tokenizer),
            "sparse": (1, self.sparse),
        }

    def _save_sparse(self, hf) -> None:
        import torch
        from peft import LoraConfig, get_peft_model
        from safetensors.torch import save_file

        from headcount.models.gated_folder import GATES, SparseFacts

        facts = SparseFacts("log-prob", 2.0, str(self.home / "model"), self.model.weights_hash)
        peft = get_peft_model(hf, LoraConfig("CAUSAL_LM", r=2, target_modules=["q_proj"]))
        peft.save_pretrained(self.home / "sparse")
        save_file({"offset": torch.zeros(2, 4)}, self.home / "sparse" / GATES)
        facts.save(self.home / "sparse")

    # One function a reader: it makes a case and hands it to the reader.

    def jsonl(self, rng: random.Random) -> None:
        sound = rng.choice((PAIRS, IDS, ITEMS))
        self.written("t.jsonl", changed_json(sound, rng, lines=True))
        self.called("tasks", "show", "t.jsonl", "--model", "m", "-n", "1")

    def study(self, rng: random.Random) -> None:
        import tomli_w

        sound = rng.choice(STUDIES)
        made = changed_value(sound, rng) if rng.random() < 0.8 else sound
        try:
            data = tomli_w.dumps(made).encode()
        except (TypeError, ValueError, AttributeError, UnicodeEncodeError):  # TOML has no null, and no half letters
            data = tomli_w.dumps(sound).encode()
        self.written("s.toml", changed_bytes(data, rng) if rng.random() < 0.3 else data)
        self.called("run", "s.toml", "--plan", "--model", "m", *(["--quick"] if rng.random() < 0.2 else []))

    def questions(self, rng: random.Random) -> None:
        self.written("q.json", changed_json(COGQA, rng, lines=rng.random() < 0.5))
        self.called("questions", "--questions", "q.json", "-n", "1")

    def known_set(self, rng: random.Random) -> None:
        import csv

        name = rng.choice(list(SETS))
        if rng.random() < 0.25:
            out = io.StringIO()
            rows = [{key: value if isinstance(value, str) else json.dumps(value) for key, value in row.items()}
                    for row in SETS[name]]  # fmt: skip
            writer = csv.DictWriter(out, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
            self.written("r.csv", changed_bytes(out.getvalue().encode(), rng))
            return self.called("tasks", "show", f"{name}:r.csv", "--model", "m", "-n", "1")
        self.written("r.jsonl", changed_json(SETS[name], rng, lines=rng.random() < 0.7))
        self.called("tasks", "show", f"{name}:r.jsonl", "--model", "m", "-n", "1")

    def command(self, rng: random.Random) -> None:
        words = list(rng.choice(COMMANDS))
        for _ in range(rng.choice((1, 1, 2, 3))):
            at, way = rng.randrange(len(words)), rng.randrange(4)
            if way == 0:
                words[at] = str(strange(rng)).replace("\0", "").encode(errors="replace").decode()
            elif way == 1:
                words.pop(at)
                if not words:
                    words = ["--version"]
            elif way == 2:
                words.insert(
                    at, rng.choice(("--n", "-n", "9" * 5000, "--seed", "-1", "1e12", "--", "--help", "nan", "é", "0"))
                )
            else:
                words[at] = (
                    changed_bytes(words[at].encode(errors="surrogateescape"), rng)
                    .replace(b"\0", b"")
                    .decode(errors="surrogateescape")
                )
        if "run" in words[:1] and "--plan" not in words:
            words.append("--plan")
        self.called(*words)

    def text(self, rng: random.Random) -> None:
        from headcount.sparse.recipe import Recipe
        from headcount.sparse.text import read_text

        lines = [{"text": "We saw John and Mary. " * 20}] * 6
        self.written("t.jsonl", changed_json(lines, rng, lines=True))
        settings = {"length": 16, "held_out": rng.choice((0.05, 0.5, 0.9, 0.99))}
        read_text(self.model, [str(self.place / "t.jsonl")], Recipe(**settings))

    def comet(self, rng: random.Random) -> None:
        from headcount.meters import comet

        answers = ["a b", "c"]
        rows = {"answer": [{"src": "x", "mt": answer, "ref": "y", "COMET": 0.5} for answer in answers]}

        def call(command, folder=None, **more):
            Path(folder, "scores.json").write_bytes(changed_json(rows, rng))
            return subprocess.CompletedProcess(command, rng.choice((0, 0, 0, 1)), "", "ValueError: no")

        with mock.patch.object(comet, "_call", call):
            found = comet.comet_scores(["x", "x"], answers, ["y", "y"], command=Path("comet-score"))
        if not all(isinstance(score, float) for score in found):
            raise WrongError(f"scores {found}")

    def scores(self, rng: random.Random) -> None:
        from headcount.rank.comparison import compare_scores, load_scores

        shutil.copytree(self.home / "scores", self.place / "scores")
        path = rng.choice(sorted((self.place / "scores").iterdir()))
        self.change(path, rng)
        compare_scores([load_scores(self.home / "scores"), load_scores(self.place / "scores")])

    def config(self, rng: random.Random) -> None:
        self.model_folder(rng, "model", ["config.json", "generation_config.json"])

    def weights(self, rng: random.Random) -> None:
        self.model_folder(rng, "model", ["model.safetensors"])

    def tokenizer(self, rng: random.Random) -> None:
        self.model_folder(rng, "model", ["tokenizer.json", "tokenizer_config.json"])

    def sparse(self, rng: random.Random) -> None:
        self.model_folder(rng, "sparse", ["sparse.json", "gates.safetensors", "adapter_config.json",
                                          "adapter_model.safetensors"])  # fmt: skip

    def model_folder(self, rng: random.Random, name: str, files: list[str]) -> None:
        import headcount as hc

        shutil.copytree(self.home / name, self.place / "model")
        self.change(self.place / "model" / rng.choice(files), rng)
        if rng.random() < 0.2:
            hc.forecast(str(self.place / "model"))
        model = hc.load(self.place / "model")
        model.encode("We saw John")
        hc.score(model, hc.task(self.place / "own.jsonl", model), "attribution") if rng.random() < 0.2 else None

    # What all of them use.

    def change(self, path: Path, rng: random.Random) -> None:
        if path.suffix == ".json" and rng.random() < 0.7:
            path.write_bytes(changed_json(json.loads(path.read_text()), rng))
        else:
            path.write_bytes(changed_bytes(path.read_bytes(), rng))

    def written(self, name: str, data: bytes) -> None:
        (self.place / name).write_bytes(data)

    def called(self, *words: str) -> None:
        """The command line as users call it, with the model that is there already."""
        from headcount import cli
        from headcount.core.errors import HeadcountError
        from headcount.models import load
        from headcount.studies import forecast
        from headcount.studies.bench import Bench

        out, err = io.StringIO(), io.StringIO()

        def found(name, *more, **options):
            return self.model if name == "m" else load(name)

        patches = [
            mock.patch.object(cli.show, "load_model", found), mock.patch.object(cli.models, "load_model", found),
            mock.patch.object(Bench, "model", lambda bench, name, asked: found(name)),
            mock.patch.object(forecast, "tokens_a_second", return_value=1e5),
            mock.patch.object(sys, "argv", ["headcount", *words]),
            contextlib.redirect_stdout(out), contextlib.redirect_stderr(err),
        ]  # fmt: skip
        with contextlib.ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch)
            try:
                cli.main()
                code = 0
            except SystemExit as stop:
                code = stop.code or 0
        said = err.getvalue()
        if code == 2:
            last = said.rstrip("\n").split("\n")[-1]
            if not last.startswith("headcount: ") and "Usage:" not in out.getvalue() + said:
                raise WrongError(f"exit code 2 without a sentence: {said[-500:]}")
            raise (
                HeadcountError(last.removeprefix("headcount: "))
                if len(last) <= 311
                else WrongError(f"too long: {last}")
            )
        if code != 0:
            log = next((word.rstrip(";") for word in said.split() if word.endswith(".log;")), None)
            raise WrongError(f"exit code {code}: {said[-400:]}\n{Path(log).read_text() if log else ''}")

    def case(self, number: int) -> tuple[str, str]:
        """The reader, and what came of a case; an error where it is not what must hold."""
        from headcount.core.errors import HeadcountError

        rng = random.Random(f"{self.seed} {number}")
        names = [name for name, (weight, _) in self.readers.items() for _ in range(weight)]
        reader = rng.choice(names)
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        (self.place / "own.jsonl").write_text("\n".join(map(json.dumps, IDS)))
        if reader == "command":
            shutil.copytree(self.home / "scores", self.place / "scores")
        before, here = signal.signal(signal.SIGALRM, _hangs), Path.cwd()
        signal.alarm(SECONDS)
        os.chdir(self.place)
        try:
            self.readers[reader][1](rng)
        except HeadcountError as error:
            if len(str(error)) > 300 or "\n" in str(error):
                raise WrongError(f"too long: {error}") from error
            return reader, "refused"
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
            os.chdir(here)
        return reader, "taken"


def _hangs(number: int, frame: object) -> None:
    raise WrongError(f"more than {SECONDS} seconds")


def campaign(home: Path, seed: int, numbers, tell=lambda words: None) -> tuple[Counter, list[str]]:
    """How many of each reader came out how, and what must not have happened."""
    import warnings

    made, counts, wrong = Campaign(home, seed), Counter(), []
    for number in numbers:
        begun = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = made.case(number)
                counts[found] += 1
                SPENT[found[0]] += time.process_time() - begun
        except Exception:
            wrong.append(f"case {number} of seed {seed}:\n{traceback.format_exc()[-3000:]}")
            tell(wrong[-1])
    return counts, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", type=int, default=None)
    asked = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if asked.seed is None else asked.seed
    print(f"seed {seed}", flush=True)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        numbers = range(asked.count) if asked.only is None else [asked.only]
        counts, wrong = campaign(Path(home), seed, numbers, tell=lambda words: print(words, flush=True))
    for (reader, outcome), count in sorted(counts.items()):
        print(f"{reader:<12} {outcome:<8} {count:>6} {SPENT[reader]:>8.1f} s for all of this reader")
    print(f"{len(numbers)} cases of seed {seed}, {len(wrong)} wrong, {time.monotonic() - begun:.0f} s")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
