"""What to say of a model that is not there: where it was looked for, why it was not found, what may have been meant."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from huggingface_hub.errors import (
    GatedRepoError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from ..core.errors import HeadcountError, did_you_mean, in_short, listed, nearest
from ..core.plain import quoted
from ..core.reading import local_path
from .gguf_files import GGUF

LISTED, SHORT = 80, 60
"""Letters of all known names, and of what another library said, in a long sentence."""


def require_hub_id(source: str, named: Iterable[str]) -> None:
    """Refuse what is neither on this machine nor a name that the hub could be asked for."""
    if source.startswith((".", "/", "~")) or source.count("/") > 1:
        raise HeadcountError(f"There is no model folder at {source}.{meant(source, named)}")
    # A slip in a name is told at once, before the hub is asked.
    if get_close_matches(source, named := list(named), n=1, cutoff=0.75):
        raise HeadcountError(f"There is no model {quoted(source)}.{did_you_mean(source, named)}")
    try:
        validate_repo_id(source)
    except HFValidationError as error:
        told = f"There is no folder {quoted(source)}, and no model on the hub can have that name."
        raise HeadcountError(f"{told}{meant(source, named)}") from error


def not_delivered(source: str, named: Iterable[str], error: BaseException) -> str:
    """Of a name that the hub was asked for, or its cache."""
    tried = f"is neither a named model ({listed(named := list(named), LISTED)}) nor a local folder"
    told = f"The model {quoted(source)} {tried}, and the hub did not deliver it: {_why(error)}."
    return f"{told}{_beside(source) or nearest(source, named)}"


def meant(source: str, named: Iterable[str]) -> str:
    """The folder beside it that has nearly that name; else the nearest named model, and all of them."""
    return _beside(source) or did_you_mean(source, named)


def _why(error: BaseException) -> str:
    for cause in _causes(error):
        match cause:
            case GatedRepoError():
                return "it is gated; ask for access on its page, and log in with 'hf auth login'"
            case RepositoryNotFoundError():
                return "it has no model of that name, or only for those who are logged in"
            case RevisionNotFoundError():
                return "it has no such revision of it"
            case LocalEntryNotFoundError() if cause.__cause__ is None:
                return "it was not asked (HF_HUB_OFFLINE or local_files_only), and its cache has none of that name"
            case LocalEntryNotFoundError():
                return "it cannot be reached, and its cache has none of that name"
    return in_short(error, SHORT).rstrip(".")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _beside(source: str) -> str:
    """A folder or GGUF file that differs in one part of its path, as a question."""
    path, known = local_path(source), Path()
    for place, part in enumerate(path.parts):
        if (known / part).exists():
            known /= part
            continue
        rest = path.parts[place + 1 :]
        with suppress(OSError):
            there = [each.name for each in known.iterdir() if each.is_dir() or each.suffix == GGUF]
            for name in get_close_matches(part, there, n=3, cutoff=0.6):
                if (found := known.joinpath(name, *rest)).exists():
                    return f" Did you mean {str(found)!r}?"
        break
    return ""
