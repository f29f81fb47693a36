"""`make fuzz`: 20,000 mutated inputs with a new seed, which is printed.

python tests/fuzz [--count 20000] [--seed N] [--start N] [--only N] [--readers jsonl,study]

A campaign can go on where it was left: the same seed, and --start with the number of the next case.
"""

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]
for name, value in {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TQDM_DISABLE": "1"}.items():
    os.environ.setdefault(name, value)

from fuzz.campaign import READERS, campaign  # noqa: E402


def cpu() -> float:
    """Seconds of this process and of those that it has forked."""
    return sum(os.times()[:4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--only", type=int, default=None)
    parser.add_argument("--readers", default="", help=",".join(READERS))
    asked = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if asked.seed is None else asked.seed
    print(f"seed {seed}", flush=True)
    begun = cpu()
    with tempfile.TemporaryDirectory() as home:
        numbers = range(asked.start, asked.start + asked.count) if asked.only is None else [asked.only]
        readers = tuple(filter(None, asked.readers.split(",")))
        _, wrong = campaign(Path(home), seed, numbers, readers, lambda words: print(words, flush=True), block=250)
    cases = f"{len(numbers)} cases of seed {seed} from number {numbers[0]} on"
    print(f"{cases}, {len(wrong)} wrong, {cpu() - begun:.0f} s of CPU time")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
