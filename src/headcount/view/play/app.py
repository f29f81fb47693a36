"""What the page can ask of the switchboard, and how the answers come back.

    GET  /               the page
    GET  /api/facts      the model, its tasks, and where rankings can be had
    POST /api/answer     a state -> `Answer`
    POST /api/look       a state and a head -> `Look`
    POST /api/overview   a state -> `Overview`
    POST /api/continue   a state -> a line of JSON a token, `Progress`
    POST /api/ranking    a name, a task -> lines of JSON: how far it is, then `Ranking`
    POST /api/pairs      a task and a seed -> states
    POST /api/heads      a pasted list -> names
    POST /api/python     a state -> the `headcount.cut` that gives the same
    POST /api/study      states and a name -> the folder that was written

A request says who asks (`client`, one a page) and carries a number (`id`) that comes back with the answer. A newer one
of the same client and kind overtakes the older, which is told so: `{"id": …, "overtaken": true}`. What a state asks for
and cannot have is told as `{"id": …, "error": …}`, or as the last line; a request that is not one has the status 400.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from ... import __version__
from ...core.errors import HeadcountError, in_short
from ...core.settings import Listed, Settings
from ...edit import Head
from ...edit.cut import keep_mask, parse_head
from ...models import Model
from ...models.gates import gates_of
from ...tasks import TASKS
from ...tasks import task as make_task
from ...tasks.examples import Completion, Example
from ..server import in_words, page
from .aside import Pause, in_turns
from .board import Switchboard
from .look import Looker
from .python import snippet
from .rankings import Rankings
from .state import FILLS, MAX_TOKENS, Asked, State, as_answer, as_words, parse_heads
from .study import save_study
from .worker import Event, Job, OvertakenError, Work, Worker
from .writing import Writer

PAIRS = 8
"""Examples of a task that are offered at a time."""


class Asking(Settings):
    """What every request has."""

    client: str = ""
    id: int = 0


class OfState(Asking):
    state: dict[str, Any]


class OfHead(OfState):
    head: str


class OfRanking(Asking):
    name: str
    task: str = "ioi"


class OfTask(Asking):
    task: str
    seed: int = 0


class OfText(Asking):
    text: str


class OfStudy(Asking):
    name: str
    states: Listed[dict[str, Any]]
    order: Listed[str] = ()


@dataclass
class App:
    """The switchboard of one model behind its routes."""

    model: Model
    source: str = ""  # what `headcount.load` takes; empty for a module in memory
    results: Path | None = None  # where saved scores are looked for
    studies: Path = field(default_factory=lambda: Path("headcount-play"))
    start: dict[str, Any] = field(default_factory=dict)  # the state that the page begins with

    def __post_init__(self) -> None:
        self.board = Switchboard(self.model)
        self.looker, self.writer = Looker(self.board), Writer(self.board)
        self.rankings = Rankings(self.model, self.results)
        self.worker = Worker(self.board.stoppable)

    def routes(self) -> list[BaseRoute]:
        answers: dict[str, tuple[type[Asking], Callable[[Any], Any]]] = {
            "answer": (OfState, lambda asked: self.board.answer(self._asked(asked.state))),
            "look": (OfHead, lambda asked: self.looker.look(self._asked(asked.state), self._head(asked.head))),
            "overview": (OfState, lambda asked: self.looker.overview(self._asked(asked.state))),
            "pairs": (OfTask, lambda asked: {"states": self._pairs(asked.task, asked.seed)}),
            "heads": (OfText, lambda asked: {"heads": parse_heads(self.model, asked.text)}),
            "python": (OfState, lambda asked: {"text": self._snippet(asked.state)}),
            "study": (OfStudy, lambda asked: self._study(asked)),
        }
        streams: dict[str, tuple[type[Asking], Callable[[Any], Iterator[Any]]]] = {
            "continue": (OfState, lambda asked: self.writer.write(self._asked(asked.state))),
            "ranking": (OfRanking, self._ranking),
        }
        return [
            Route("/", lambda request: page(f"headcount play · {self.model.name}", "play")),
            Route("/api/facts", lambda request: JSONResponse(self.facts())),
            *(Route(f"/api/{n}", partial(self._answer, n, *both), methods=["POST"]) for n, both in answers.items()),
            *(Route(f"/api/{n}", partial(self._stream, n, *both), methods=["POST"]) for n, both in streams.items()),
        ]

    def facts(self) -> Event:
        """What the page has to know of the model."""
        return {
            "version": __version__,
            "model": self.model.name,
            "class": type(self.model.hf).__name__,
            "layers": self.model.n_layers,
            "heads": self.model.n_heads,
            "sparse": bool(gates_of(self.model)),
            "text": self.model.tokenizer is not None,
            "fills": list(FILLS),
            "max_tokens": MAX_TOKENS,
            "tasks": [
                {"name": name, "about": entry.summary, "pairs": entry.kind == "pairs"}
                for name, entry in TASKS.sound().items()
            ]
            if self.model.tokenizer is not None
            else [],
            "rankings": self.rankings.sources(),
            "start": self.start,
        }

    # -----------------------------------------------------------------------------------------------------------------
    # In the worker's thread

    def _asked(self, state: dict[str, Any]) -> Asked:
        return Asked.of(self.model, State(**state))

    def _head(self, name: str) -> Head:
        keep_mask(self.model, [name])  # refuses one that is not there
        return parse_head(name)

    def _snippet(self, state: dict[str, Any]) -> str:
        made = State(**state)
        return snippet(self.model, self.source, made, Asked.of(self.model, made))

    def _study(self, asked: OfStudy) -> Event:
        states = [State(**state) for state in asked.states]
        place = save_study(self.model, self.source, states, asked.name, self.studies, asked.order)
        return {"folder": str(place), "command": f"headcount run {place / 'study.toml'}"}

    def _pairs(self, task: str, seed: int) -> list[Event]:
        if task not in TASKS:
            raise HeadcountError(f"There is no task {task[:60]!r} here. Known: {', '.join(TASKS.sound())}.")
        return [self._state(example) for example in make_task(task, self.model, n=2 * PAIRS, seed=seed).test]

    def _state(self, example: Example) -> Event:
        """An example as a state, in words where words give the same tokens."""
        if isinstance(example, Completion):
            prompt, answers = as_words(self.model, example.prompt), example.target[:1]
            wrongs = () if example.has_long_choices else tuple(choice[0] for choice in example.others)
            other: str | list[int] = ""
        else:
            prompt, other = as_words(self.model, example.clean), as_words(self.model, example.corrupt)
            answers, wrongs = example.answers, example.wrongs
        sides = ([as_answer(self.model, prompt, token) for token in side] for side in (answers, wrongs))
        right, wrong = sides
        texts = {"prompt_text": self.model.decode(example.ids), "other_text": ""}
        if not isinstance(example, Completion):
            texts["other_text"] = self.model.decode(example.corrupt)
        return {"prompt": prompt, "other": other, "answers": right, "wrongs": wrong, **texts}

    def _ranking(self, asked: OfRanking) -> Iterator[Event]:
        of, done = self.rankings.prompts(asked.name), 0

        def find(pause: Pause) -> Event:
            def advance(prompts: int) -> None:
                nonlocal done
                done += prompts
                pause({"done": done, "of": of})

            return {"ranking": dict(self.rankings.get(asked.name, asked.task, advance, pause))}

        yield {"done": 0, "of": of}  # the page says at once that it has begun
        yield from in_turns(find)

    # -----------------------------------------------------------------------------------------------------------------
    # In the server's thread

    async def _answer(self, kind: str, shape: type[Asking], make: Callable[[Any], Any], request: Request) -> Response:
        asked = await _read(request, shape)
        events = self._submit(kind, asked, lambda: iter([make(asked)]), urgent=True)[1]
        try:
            found = [event async for event in events]
        except OvertakenError:  # nothing is wrong: a page that is clicked fast does this all the time
            return JSONResponse({"id": asked.id, "overtaken": True})
        except HeadcountError as error:  # nor here: whoever types a prompt passes many that cannot be answered
            return JSONResponse({"id": asked.id, "error": in_words(error)})
        return JSONResponse({"id": asked.id, **found[0]})

    async def _stream(
        self, kind: str, shape: type[Asking], make: Callable[[Any], Iterator[Any]], request: Request
    ) -> Response:
        asked = await _read(request, shape)
        job, events = self._submit(kind, asked, lambda: make(asked), urgent=False)

        async def lines() -> AsyncIterator[str]:
            try:
                async for event in events:
                    yield json.dumps({"id": asked.id, **event}) + "\n"
            except Exception as error:  # the response has begun: what is wrong is its last line
                yield json.dumps({"id": asked.id, "error": in_words(error)}) + "\n"
            finally:
                self.worker.drop(job)

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    def _submit(self, kind: str, asked: Asking, work: Work, urgent: bool) -> tuple[Job, AsyncIterator[Event]]:
        """Hand a job to the worker; its events come back in this thread's loop."""
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[Event | Exception | None]()

        def tell(event: Event | Exception | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(queue.put_nowait, event)

        # Who gives no name is overtaken by nobody.
        job = Job(asked.client or str(id(queue)), kind, work, tell, urgent)
        self.worker.submit(job)

        async def events() -> AsyncIterator[Event]:
            while (event := await queue.get()) is not None:
                if isinstance(event, Exception):
                    raise event
                yield event

        return job, events()


async def _read(request: Request, shape: type[Asking]) -> Any:
    """The body as what is wanted of it, or a sentence about what is wrong."""
    try:
        given = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise HeadcountError(f"The request must be JSON: {in_short(error, 120)}.") from error
    if not isinstance(given, dict):
        raise HeadcountError(f"The request must be a JSON object; got a {type(given).__name__}.")
    return shape(**given)
