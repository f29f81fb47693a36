"""What all cases of a campaign share: small models, scores and results that are made once, and the command line."""

import contextlib
import io
import json
import os
import random
import shutil
import sys
from functools import cached_property
from pathlib import Path
from unittest import mock

from fuzz.mutations import changed_bytes, changed_json

SENTENCE = 300 + len("headcount: ")


class WrongError(Exception):
    """What must not happen."""


class Home:
    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        import headcount as hc
        from families import CONFIGS
        from tokenizers_for_tests import make_tokenizer

        torch.manual_seed(0)
        self.folder, self.place = folder, folder / "case"
        os.environ["HEADCOUNT_CACHE"] = str(folder / "cache")
        tokenizer, config = make_tokenizer("digits"), CONFIGS["llama-gqa"]()
        config.vocab_size, config.max_position_embeddings, config.num_hidden_layers = len(tokenizer), 256, 2
        AutoModelForCausalLM.from_config(config).save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
        self.model = hc.load(folder / "model")

    # What is made when the first case asks for it.

    @cached_property
    def scores(self) -> Path:
        """Of heads."""
        import headcount as hc

        return hc.score(self.model, hc.task("ioi", self.model, n=4)).save(self.folder / "scores")

    @cached_property
    def adapter(self) -> Path:
        """A LoRA as peft writes it."""
        from peft import LoraConfig, get_peft_model
        from transformers import AutoModelForCausalLM

        hf = AutoModelForCausalLM.from_pretrained(self.folder / "model")
        get_peft_model(hf, LoraConfig("CAUSAL_LM", r=2, target_modules=["q_proj"])).save_pretrained(
            self.folder / "lora"
        )
        facts = json.loads((self.folder / "lora" / "adapter_config.json").read_text())
        facts["base_model_name_or_path"] = str(self.folder / "model")
        (self.folder / "lora" / "adapter_config.json").write_text(json.dumps(facts))
        return self.folder / "lora"

    @cached_property
    def sparse(self) -> Path:
        """A model with gates, as sparsify leaves it."""
        import torch
        from safetensors.torch import save_file

        from headcount.models.gated_folder import GATES, SparseFacts

        place = shutil.copytree(self.adapter, self.folder / "sparse")
        save_file({"offset": torch.zeros(2, 4)}, place / GATES)
        SparseFacts("log-prob", 2.0, str(self.folder / "model"), self.model.weights_hash).save(place)
        return place

    @cached_property
    def gguf(self) -> Path:
        from gguf_files import write_gguf

        path = self.folder / "tiny.gguf"
        tokens = ["<s>", "</s>", "<unk>"]
        write_gguf(path, self.model.hf, [*tokens, *(f"w{n}" for n in range(self.model.vocabulary - len(tokens)))])
        return path

    @cached_property
    def results(self) -> dict[str, Path]:
        """The output folder of every kind of study, with numbers made up, by kind."""
        import pytest

        from results_by_hand import write_by_hand

        kinds = ("heads-kept", "edges-kept", "attention-edges-kept", "head-roles", "masked-heads")
        places = {kind: self.folder / "results" / kind for kind in kinds}
        with pytest.MonkeyPatch.context() as patch:
            for kind, place in places.items():
                task = {"head-roles": "syntax", "masked-heads": "retrieval"}.get(kind, "ioi")
                write_by_hand(kind, place, patch, tasks=(task,))
        return places

    @cached_property
    def circuit(self) -> Path:
        """As JSON."""
        import headcount as hc

        scores = hc.score(self.model, hc.task("ioi", self.model, n=4), "eap")
        return scores.circuit(20).export("mib", self.folder / "circuit.json")

    def make_all(self) -> None:
        """Before processes are forked, each of which would have to make them."""
        for name, made in vars(Home).items():
            if isinstance(made, cached_property):
                getattr(self, name)

    # What cases are made with.

    def change(self, path: Path, rng: random.Random) -> None:
        """A file that lies there, by its values or by its bytes."""
        if path.suffix == ".json" and rng.random() < 0.7:
            path.write_bytes(changed_json(json.loads(path.read_text()), rng))
        else:
            path.write_bytes(changed_bytes(path.read_bytes(), rng))

    def copied(self, what: Path, name: str = "") -> Path:
        """A folder or a file among those of the case."""
        place = self.place / (name or what.name)
        return Path((shutil.copytree if what.is_dir() else shutil.copy)(what, place))

    def written(self, name: str, data: bytes) -> str:
        (self.place / name).write_bytes(data)
        return name

    def _is_outside(self, word: str) -> bool:
        """A folder that a changed word happens to name, `..` say, into which a command would write."""
        with contextlib.suppress(OSError, ValueError):
            return Path(word).is_dir() and not Path(word).resolve().is_relative_to(self.folder.resolve())
        return False

    def called(self, *words: str, tokens_a_second: float = 1e5) -> None:
        """The command line as users call it, with the model that is there already under the name m."""
        from headcount import cli
        from headcount.cli import check_task, models, show
        from headcount.core.errors import HeadcountError
        from headcount.export import cuts
        from headcount.models import load
        from headcount.studies import forecast
        from headcount.studies.bench import Bench

        out, err = io.StringIO(), io.StringIO()
        words = tuple("." if self._is_outside(word) else word for word in words)

        def found(name, *more, **options):
            return self.model if name == "m" else load(name)

        patches = [
            *(mock.patch.object(module, "load_model", found) for module in (show, models, check_task)),
            mock.patch.object(Bench, "model", lambda bench, name, asked: found(name)),
            mock.patch.object(forecast, "tokens_a_second", return_value=tokens_a_second),
            mock.patch.object(cuts, "load", found),
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
            if len(last) > SENTENCE:
                raise WrongError(f"too long: {last}")
            raise HeadcountError(last.removeprefix("headcount: ") or "usage")
        if code == 1 and words[:2] == ("tasks", "check") and not said:
            return  # no line can be used, as the table says
        if code != 0:
            log = next((word.rstrip(";") for word in said.split() if word.endswith(".log;")), None)
            raise WrongError(f"exit code {code}: {said[-400:]}\n{Path(log).read_text() if log else ''}")
