"""Fixtures that several files share. They import late: the settings below are read when a library is first imported."""

import gc
import json
import os
import shutil

import pytest

from golden_folders import GOLDEN, PLANTED
from pictures import DRAWN, leave_out_pictures

# While tests are collected hardly anything is thrown away, and looking for it takes a quarter of the time.
gc.disable()
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
for bars in ("HF_HUB_DISABLE_PROGRESS_BARS", "HF_DATASETS_DISABLE_PROGRESS_BARS", "TQDM_DISABLE"):
    os.environ[bars] = "1"  # as the command line has it
os.environ["HF_HUB_OFFLINE"] = "1"
# Three workers share two cores, since one of them often waits: for a browser, for Ray, for another process. Tiny
# models gain nothing from threads: two of them waiting for each other take ten times as long as one.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Some CPUs die with an illegal instruction in oneDNN's bfloat16 products unless it leaves their newest ones alone.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""The browser that pages are tried in."""


STARTED_ONCE = {"browser", "in_one_process"}
"""Fixtures that take seconds, of tests that wait for other processes."""


def pytest_collection_modifyitems(items):
    """Real weights first, then what waits for other processes, all by one worker, while the others do the rest and then
    steal from its end: so a browser is started by one of them alone, and no long wait is left for the last minute."""
    items.sort(key=lambda item: (item.get_closest_marker("slow") is None, not STARTED_ONCE & {*item.fixturenames}))


def pytest_collection_finish():
    """What is imported by now stays to the end: the garbage collector need not look at it again and again, nor at the
    rest as often as it would by default."""
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


def pytest_terminal_summary(terminalreporter):
    """What was left out is said, in one line."""
    if CHROMIUM is None:
        terminalreporter.write_line("No Chromium was found, so the pages were not tried in a browser.")


@pytest.fixture(scope="session")
def chromium():
    """Its path. Where there is none, what needs it is left out, unless HEADCOUNT_NEEDS_BROWSER is set."""
    if CHROMIUM is None and not os.environ.get("HEADCOUNT_NEEDS_BROWSER"):
        pytest.skip("no Chromium")
    assert CHROMIUM is not None, "No Chromium was found, and HEADCOUNT_NEEDS_BROWSER asks for one."
    return CHROMIUM


@pytest.fixture(scope="session", autouse=True)
def light_fonts():
    """Cutting fonts to the letters of a PDF takes longer than all else about a figure. `test_figures.py` saves one
    as users get it."""
    from headcount.view.style import STYLE

    embedded = STYLE["pdf.fonttype"]
    STYLE["pdf.fonttype"] = 3
    yield embedded
    STYLE["pdf.fonttype"] = embedded


@pytest.fixture(scope="session", autouse=True)
def quick_disk():
    """Nobody pulls the plug on a test, so none waits for the disk: what a killed process wrote is there without."""
    synced, os.fsync = os.fsync, lambda handle: None
    yield
    os.fsync = synced


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache folder of the test's own, so that nothing is found that it did not make."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("HEADCOUNT_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def shared_steps(tmp_path_factory):
    """Where `shared_cache` lies."""
    return tmp_path_factory.getbasetemp() / "shared-cache"


@pytest.fixture
def shared_cache(shared_steps, monkeypatch):
    """For tests that look at what a study leaves: steps that another of them has finished are not run again."""
    monkeypatch.setenv("HEADCOUNT_CACHE", str(shared_steps))
    return shared_steps


@pytest.fixture
def no_figures(monkeypatch):
    """For tests that look at what a study computes. Each kind of study has tests that look at its figures and page."""
    leave_out_pictures(monkeypatch)


@pytest.fixture
def plain_figures(monkeypatch):
    """For tests that look at which files there are: some bytes in the place of each figure; in forked processes too."""
    from headcount.core.files import write_file

    def save(figure, folder, name="figure"):
        for ending in ("png", "svg", "pdf"):
            write_file(folder / f"{name}.{ending}", f"{name} as {ending}")

    for kind in DRAWN:
        monkeypatch.setattr(f"headcount.studies.{kind}.outputs.save_figure", save)


@pytest.fixture
def headcount(own_cache, monkeypatch, capsys):
    """Call the real entry point; gives (exit code, stdout, stderr)."""

    import sys

    from headcount import cli

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["headcount", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
        return code, *capsys.readouterr()

    return call


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A small random Llama with a tokenizer, as a local folder."""
    import torch
    from transformers import AutoModelForCausalLM

    from families import CONFIGS
    from tokenizers_for_tests import make_tokenizer

    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("models") / "tiny-llama"
    tokenizer = make_tokenizer("digits")
    config = CONFIGS["llama-gqa"]()
    config.vocab_size, config.max_position_embeddings = len(tokenizer), 512
    AutoModelForCausalLM.from_config(config).save_pretrained(place)
    tokenizer.save_pretrained(place)
    return str(place)


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """A text file of some two thousand tokens of that tokenizer."""
    place = tmp_path_factory.mktemp("text") / "names.txt"
    place.write_text("\n".join(f"We saw Mary, Mary and John in the year {1100 + 7 * i}" for i in range(60)))
    return str(place)


@pytest.fixture(scope="session")
def golden_task():
    """The pairs of the reference numbers, as train and as test."""
    import headcount as hc

    raw = json.loads((GOLDEN / "pairs.json").read_text())
    listed = zip(raw["clean"], raw["corrupt"], raw["answer"], raw["wrong"], strict=True)
    made = tuple(hc.Pair(tuple(c), tuple(x), (a,), (w,)) for c, x, a, w in listed)
    return hc.Task("golden", "Golden", "logit_diff", made, made)


@pytest.fixture(scope="session")
def planted_task():
    """The prompts of the planted model: a token is to be copied from earlier in the prompt."""
    import headcount as hc

    raw = json.loads((PLANTED / "prompts.json").read_text())
    listed = zip(raw["prompts"], raw["targets"], strict=True)
    made = tuple(hc.Completion(tuple(prompt), (target,)) for prompt, target in listed)
    return hc.Task("planted", "Planted", "log_prob", made[:64], made[64:])
