"""By which names the panels of one study are told apart, in files, tables and figures."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..tasks.examples import Task
from .panel import Fingerprinted, Panel

TOLD = ("task", "models", "title", "fill", "method")
"""Settings that have columns or rows of their own."""
LONGEST = 40


def named_apart(panels: Sequence[Panel], place: int, examples: Fingerprinted) -> Fingerprinted:
    """The examples of a panel under a name and a title that no panel with other examples or settings has: behind the
    name of the task, that of the folder it comes from, or the settings that set it apart."""
    panel = panels[place]
    if not isinstance(examples, Task):
        return examples
    shared = _ends_alike(panel.task, [other.task for other in panels])
    prefix = "nonsense:" if examples.name.startswith("nonsense:") else ""
    name = f"{prefix}{shared}" if shared else examples.name
    title = name if shared and not panel.title else examples.title
    rivals = [other for other in panels if _rivals(panel, other)]
    if apart := _difference(panel, rivals):
        name = f"{name} ({apart})"
        if any(other.title == panel.title for other in rivals):
            title = f"{title} ({apart})"
    return replace(examples, name=name, title=title)


def _ends_alike(task: str, tasks: Sequence[str]) -> str:
    """As much of the path of a file as tells it from others whose names end alike; empty where the name itself does."""
    mine = _parts(task)
    others = [_parts(other) for other in dict.fromkeys(tasks) if other != task]
    if not any(other[-1] == mine[-1] for other in others):
        return ""
    lengths = range(2, len(mine) + 1)
    enough = next((n for n in lengths if not any(other[-n:] == mine[-n:] for other in others)), None)
    return "/".join(mine[-enough:]) if enough else task


def _parts(task: str) -> tuple[str, ...]:
    if not task.endswith(".jsonl"):
        return (task,)
    return Path(task.removeprefix("nonsense:")).with_suffix("").parts


def _rivals(one: Panel, other: Panel) -> bool:
    told = ("task", "fill", "method")
    same = all(getattr(one, name, None) == getattr(other, name, None) for name in told)
    return same and one != other and bool(set(one.models) & set(other.models))


def _difference(panel: Panel, rivals: Sequence[Panel]) -> str:
    """The settings that rivals do not share, in words."""
    own, theirs = panel.facts(), [rival.facts() for rival in rivals]
    keys = [key for key in own if key not in TOLD and any(facts[key] != own[key] for facts in theirs)]
    return ", ".join(f"{key.replace('_', ' ')} {_in_words(own[key])}" for key in keys)


def _in_words(value: object) -> str:
    text = "/".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return (text or "none")[:LONGEST]
