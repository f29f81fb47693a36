"""The switchboard: heads are switched off by hand, and one watches what the model says. `headcount play`, `hc.play`."""

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...models import Model
    from ..server import Address, Served
    from .app import App


class Playing:
    """A switchboard that is being served. In a notebook it shows itself in the cell."""

    def __init__(self, name: str, served: "Served", app: "App", height: int) -> None:
        self.name, self.url, self.height = name, served.url, height
        self._served, self._app = served, app

    def stop(self) -> None:
        """End its server."""
        self._app.worker.stop()
        self._served.stop()

    def __repr__(self) -> str:
        return f"Switchboard of {self.name}: {self.url}"

    def _repr_html_(self) -> str:
        title = escape(f"Switchboard of {self.name}", quote=True)
        return (
            f'<iframe src="{escape(self.url, quote=True)}" title="{title}" width="100%" height="{self.height}"'
            ' style="border: 1px solid #8888; border-radius: 6px" allow="clipboard-write"></iframe>'
        )


def play(
    model: "Model",
    prompt: str = "",
    *,
    other: str = "",
    answer: str = "",
    wrong: str = "",
    results: str | Path | None = "headcount-results",
    studies: str | Path = "headcount-play",
    source: str = "",
    port: int = 0,
    height: int = 860,
) -> Playing:
    """Open the switchboard of a model: in a notebook in the cell, else at the address that it says.

    **Arguments:**

    - `prompt`, `other`, `answer`, `wrong`: what it begins with; all of it can be changed there.
    - `results`: the folder in which saved scores and roles are looked for.
    - `studies`: the folder into which studies are saved.
    - `source`: what `headcount.load` takes, for the Python that is copied, where that is not the model's name.
    - `port`: 0 for any that is free.
    - `height`: of the cell, in pixels.

    It runs until `.stop()`, or until Python ends. What it cuts is cut for it alone: it has modules of its own, which
    share the model's weights, so that the model can be used meanwhile.
    """
    from ..server import Address, Served, guarded
    from .aside import apart

    app = _app(apart(model), source or _source_of(model), results, studies, _start(prompt, other, answer, wrong))
    address = Address.bound(port)
    return Playing(model.name, Served(guarded(app.routes(), address, framed=True), address), app, height)


def serve_switchboard(
    model: "Model",
    source: str,
    address: "Address",
    ready: Callable[[], None],
    *,
    results: str | Path | None,
    studies: str | Path,
) -> None:
    """Answer until Ctrl-C; `ready` is called before the first request is taken."""
    from ..server import guarded, serve

    app = _app(model, source, results, studies, {})
    try:
        serve(guarded(app.routes(), address), address, ready)
    finally:
        app.worker.stop()


def _app(
    model: "Model", source: str, results: str | Path | None, studies: str | Path, start: dict[str, object]
) -> "App":
    from .app import App

    return App(model, source, None if results is None else Path(results), Path(studies), start)


def _start(prompt: str, other: str, answer: str, wrong: str) -> dict[str, object]:
    lists = {"answers": answer, "wrongs": wrong}
    given = {"prompt": prompt, "other": other, **{name: [word] for name, word in lists.items() if word}}
    return {name: value for name, value in given.items() if value}


def _source_of(model: "Model") -> str:
    """What loads the same model again: its name or its folder; nothing where it was made in memory."""
    from ...models import NAMED

    place = Path(str(getattr(model.hf, "name_or_path", "") or "nowhere"))
    if not place.is_dir():
        return ""
    return model.name if model.name in NAMED else str(place) if place.name == model.name else ""
