"""Long work beside the board: it has modules of its own, and stops for others wherever one of its layers begins.

Scoring a model is no generator that could be left between two steps. It runs in a thread of its own, but only while the
worker waits for it: `in_turns` makes such work a generator, of which the worker takes a turn when nobody has clicked.
"""

import copy
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

from ...models import Model
from ...models.anatomy import find_anatomy
from .worker import Event, OvertakenError

TURN = 0.02
"""Seconds that work goes on at the least before others get a turn."""
Pause = Callable[..., None]
"""Called within the work, with or without something to say: others may have a turn now. It raises where the work is no
longer wanted."""


def apart(model: Model) -> Model:
    """The same weights in modules of their own: hooks of the one do not touch the other."""
    shared = {id(tensor): tensor for tensor in (*model.hf.parameters(), *model.hf.buffers())}
    hf = copy.deepcopy(model.hf, shared)
    return replace(model, hf=hf, anatomy=find_anatomy(hf), tokenizer=copy.deepcopy(model.tokenizer))


def in_turns(work: Callable[[Pause], Event]) -> Iterator[Event]:
    """What the work says, and at last what it returns; an empty event where it has had a turn and says nothing."""
    go, back = threading.Semaphore(0), threading.Semaphore(0)
    said: deque[Event] = deque()
    ended: list[BaseException | None] = []
    wanted, began = True, 0.0

    def pause(event: Event | None = None) -> None:
        if event is not None:
            said.append(event)
        elif time.monotonic() - began < TURN:
            return
        back.release()
        take_turn()

    def take_turn() -> None:
        nonlocal began
        go.acquire()
        began = time.monotonic()
        if not wanted:
            raise OvertakenError("This work is no longer wanted.")

    def run() -> None:
        try:
            take_turn()
            said.append(work(pause))
            ended.append(None)
        except BaseException as error:  # told to who asked
            ended.append(error)
        back.release()

    thread = threading.Thread(target=run, name="headcount aside", daemon=True)
    thread.start()
    try:
        while not ended:
            go.release()
            back.acquire()
            yield said.popleft() if said else {}
        while said:
            yield said.popleft()
        if ended[0] is not None:
            raise ended[0]
    finally:
        wanted = False
        go.release()
        thread.join()
