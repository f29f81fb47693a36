"""Mutated inputs against every reader, one after the other in one process.

What must hold of each: it is taken, or refused in one sentence of at most 300 characters, with exit code 2. No
traceback, nothing that was not foreseen (exit code 1), no hang. Each case is made from the seed and its number alone.
"""

import contextlib
import json
import random
import shutil
import signal
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

from fuzz import command_lines, folders, results, task_files
from fuzz.home import Home, WrongError
from fuzz.sound_inputs import IDS

SECONDS, PATIENCE = 60, 900
"""Of CPU time, which other work on the machine does not lengthen; and by the clock, for what sleeps."""
OUTCOMES = ("taken", "refused")
READERS = {**task_files.READERS, **command_lines.READERS, **folders.READERS, **results.READERS}
"""Name -> how often it comes, against the others, and a function that makes a case and hands it to the reader."""


class Campaign:
    def __init__(self, home: Path, seed: int, readers: tuple[str, ...] = ()) -> None:
        self.home, self.seed = Home(home), seed
        self.names = [
            name for name, (often, _) in READERS.items() if not readers or name in readers for _ in range(often)
        ]
        self.spent: Counter[str] = Counter()  # CPU seconds by reader

    def case(self, number: int) -> tuple[str, str]:
        """The reader, and what came of a case; an error where it is not what must hold."""
        from headcount.core.errors import HeadcountError

        rng = random.Random(f"{self.seed} {number}")
        reader, place, begun = rng.choice(self.names), self.home.place, time.process_time()
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        (place / "own.jsonl").write_text("\n".join(map(json.dumps, IDS)))
        try:
            with _ended_in_time(), contextlib.chdir(place), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                READERS[reader][1](self.home, rng)
        except HeadcountError as error:
            if len(str(error)) > 300 or "\n" in str(error) or not str(error):
                raise WrongError(f"not one sentence: {error}") from error
            return reader, "refused"
        finally:
            self.spent[reader] += time.process_time() - begun
        return reader, "taken"


@contextlib.contextmanager
def _ended_in_time():
    def hangs(number, frame):
        raise WrongError(f"more than {SECONDS if number == signal.SIGPROF else PATIENCE} seconds")

    timers = {signal.SIGPROF: (signal.ITIMER_PROF, SECONDS), signal.SIGALRM: (signal.ITIMER_REAL, PATIENCE)}
    before = {number: signal.signal(number, hangs) for number in timers}
    for timer, seconds in timers.values():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for number, (timer, _) in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])


def campaign(
    home: Path, seed: int, numbers, readers=(), tell=lambda words: None
) -> tuple[Campaign, Counter, list[str]]:
    """How many of each reader came out how, and what must not have happened."""
    made, counts, wrong = Campaign(home, seed, readers), Counter(), []
    for done, number in enumerate(numbers, start=1):
        try:
            counts[made.case(number)] += 1
        except (Exception, SystemExit):
            wrong.append(f"case {number} of seed {seed}:\n{traceback.format_exc()[-3000:]}")
            tell(wrong[-1])
        if done % 500 == 0:
            tell(
                f"{done} cases, up to number {number}, {len(wrong)} wrong, {sum(made.spent.values()):.0f} s of CPU time"
            )
    return made, counts, wrong
