"""Mutated inputs against every reader, one after the other in one process.

What must hold of each: it is taken, or refused in one sentence of at most 300 characters, with exit code 2. No
traceback, nothing that was not foreseen (exit code 1), no hang. Each case is made from the seed and its number alone.
"""

import contextlib
import json
import multiprocessing
import random
import resource
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

FORKED = multiprocessing.get_context("fork")
MEMORY = 12 * 2**30
SECONDS, PATIENCE = 60, 900
"""Of CPU time, which other work on the machine does not lengthen; and by the clock, for what sleeps."""
OUTCOMES = ("taken", "refused")
READERS = {**task_files.READERS, **command_lines.READERS, **folders.READERS, **results.READERS}
"""Name -> how often it comes, against the others, and a function that makes a case and hands it to the reader."""


class Campaign:
    def __init__(self, home: Path, seed: int, readers: tuple[str, ...] = ()) -> None:
        self.home, self.seed = Home(home), seed
        asked = {name: often for name, (often, _) in READERS.items() if not readers or name in readers}
        self.names = [name for name, often in asked.items() for _ in range(often)]

    def by_blocks(self, numbers: list[int], block: int):
        """Number, reader, outcome (or what must not have happened) and CPU seconds of every case."""
        if not block:
            yield from map(self.told, numbers)
            return
        self.home.make_all()
        while numbers:
            done = []
            for told in self._forked(numbers[:block]):
                done.append(told)
                yield told
            if len(done) < len(numbers[:block]):
                number = numbers[len(done)]
                done.append((number, self.reader(number)[0], "it ended its process", 0.0))
                yield done[-1]
            numbers = numbers[len(done) :]

    def _forked(self, numbers: list[int]):
        ours, theirs = FORKED.Pipe(duplex=False)
        process = FORKED.Process(target=self._tell, args=(numbers, theirs))
        process.start()
        theirs.close()
        with contextlib.suppress(EOFError):
            while True:
                yield ours.recv()
        process.join()

    def _tell(self, numbers: list[int], pipe) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        for number in numbers:
            pipe.send(self.told(number))

    def reader(self, number: int) -> tuple[str, random.Random]:
        rng = random.Random(f"{self.seed} {number}")
        return rng.choice(self.names), rng

    def told(self, number: int) -> tuple[int, str, str, float]:
        begun, (reader, rng) = time.process_time(), self.reader(number)
        try:
            outcome = self.case(reader, rng)
        except (Exception, SystemExit):
            outcome = traceback.format_exc()[-3000:]
        return number, reader, outcome, time.process_time() - begun

    def case(self, reader: str, rng: random.Random) -> str:
        """What came of it; an error where that is not what must hold."""
        from headcount.core.errors import HeadcountError

        place = self.home.place
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
            return "refused"
        return "taken"


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


def campaign(home: Path, seed: int, numbers, readers=(), tell=lambda words: None, block=0) -> tuple[Counter, list[str]]:
    """How many of each reader came out how, and what must not have happened. With a `block`, so many cases at a time in
    a process that is forked from this one, so that a case that ends its process is told like any other."""
    made, counts, wrong, spent = Campaign(home, seed, readers), Counter(), [], Counter()
    numbers = list(numbers)
    for done, (number, reader, outcome, seconds) in enumerate(made.by_blocks(numbers, block), start=1):
        counts[reader, outcome] += outcome in OUTCOMES
        spent[reader] += seconds
        if outcome not in OUTCOMES:
            wrong.append(f"case {number} of seed {seed}, {reader}:\n{outcome}")
            tell(wrong[-1])
        if done % 500 == 0:
            tell(f"{done} cases, up to number {number}, {len(wrong)} wrong, {sum(spent.values()):.0f} s of CPU time")
    for reader in sorted(spent):
        taken, refused = (counts[reader, outcome] for outcome in OUTCOMES)
        tell(f"{reader:<12} {taken:>6} taken {refused:>6} refused {spent[reader]:>8.1f} s")
    return counts, wrong
