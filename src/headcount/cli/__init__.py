"""The command line: parse, call, print. Nothing here imports torch until a command needs it."""

import os
import sys
from contextlib import suppress
from typing import Any

import typer

from ..core.errors import HeadcountError, nearest
from ..core.limits import limit_in_words
from . import cache, models, play, show
from .app import app
from .run import add_study_commands, study_first

__all__ = ["app", "cache", "main", "models", "play", "show"]
UsageError: Any = typer.BadParameter.__base__


def main() -> None:
    """The entry point: bad input is one sentence on stderr and exit code 2, never a traceback."""
    _calm_libraries()
    try:
        arguments = study_first(sys.argv[1:])
        add_study_commands()
        code = app(args=arguments, prog_name="headcount", standalone_mode=False)
        sys.stdout.flush()
    except HeadcountError as error:
        _refuse(str(error))
    except UsageError as error:
        _refuse(_usage(error))
    except (KeyboardInterrupt, typer.Abort):
        print("headcount: stopped.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # who read what we print wants no more of it
        _print_nowhere()
        sys.exit(1)
    except Exception as error:
        words = limit_in_words(error)
        if not words:
            raise
        _print_nowhere()
        _refuse(words)
    sys.exit(code if isinstance(code, int) else 0)


def _refuse(words: str) -> None:
    if words:  # none where help has been shown instead
        print(f"headcount: {' '.join(words.split())}", file=sys.stderr)
    sys.exit(2)


def _print_nowhere() -> None:
    """Python writes what is left to print when it ends, which would fail once more."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage(error: Any) -> str:
    """What is wrong with a command line, the nearest option, and where its options are told."""
    words: str = error.format_message()
    if not words or error.ctx is None:
        return words
    if given := getattr(error, "option_name", None) if hasattr(error, "possibilities") else None:
        known = [name for option in error.ctx.command.params for name in option.opts if name.startswith("--")]
        words = f"There is no option {given}.{nearest(given, known)}"
    return f"{words.rstrip('.?')}{words[-1] if words[-1] in '.?' else '.'} See '{error.ctx.command_path} --help'."


def _calm_libraries() -> None:
    """Loading bars and advice of other libraries would drown what we have to say."""
    quiet = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_VERBOSITY": "critical", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    for name, value in {**quiet, "TQDM_DISABLE": "1", "TOKENIZERS_PARALLELISM": "false"}.items():
        os.environ.setdefault(name, value)
