"""All commands, and what becomes of their errors: a sentence and an exit code."""

import io
import os
import re
import sys
from contextlib import suppress
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import typer

from ..core.errors import HeadcountError, nearest
from ..core.exports import EXPORTS
from ..core.files import remove_empty_folders
from ..core.limits import limit_in_words
from ..core.progress import hush
from ..studies import STUDIES
from . import INTERRUPTED, cache, check_task, evaluate, models, pages, play, show, stopped, sweep
from .app import StoppedError, app
from .export import add_export_commands
from .run import add_study_commands, study_first
from .unforeseen import told_and_kept

if TYPE_CHECKING:
    from typer._click.core import Command

__all__ = ["app", "cache", "check_task", "command_line", "evaluate", "models", "pages", "play", "run", "show", "sweep"]
UsageError: Any = typer.BadParameter.__base__
_built: "tuple[list[object], Command | None]" = ([], None)
"""What was registered when the command line was last put together, and the command line."""


def run() -> None:
    """What was asked for. Bad input is one sentence on stderr and exit code 2, and what nobody foresaw one sentence, a
    log and exit code 1; never a traceback."""
    _calm_libraries()
    _print_anything()
    hush(False)
    try:
        arguments = study_first(_readable(sys.argv[1:]))
        code = command_line()(args=arguments, prog_name="headcount", standalone_mode=False)
        sys.stdout.flush()
    except HeadcountError as error:
        _refuse(str(error))
    except UsageError as error:
        if error.ctx is not None and error.format_message() == error.ctx.get_help():  # nothing was asked for
            print(error.format_message())
            sys.exit(2)
        _refuse(_usage(error))
    except (KeyboardInterrupt, typer.Abort, StoppedError) as stop:
        stopped(str(stop) if isinstance(stop, StoppedError) else "")
    except BrokenPipeError:  # who read what we print wants no more of it
        _print_nowhere()
        sys.exit(1)
    except Exception as error:  # a limit of the machine; or a mistake of ours, or a library's
        _print_nowhere()
        if words := limit_in_words(error):
            _refuse(words)
        print(f"headcount: {told_and_kept(error)}", file=sys.stderr)
        sys.exit(1)
    if code == INTERRUPTED:  # Typer makes that of Ctrl-C, and says nothing
        stopped()
    sys.exit(code if isinstance(code, int) else 0)


def command_line() -> "Command":
    """All commands, plugins included. Put together again only where a study or an export has been registered since:
    that takes longer than many commands do, and a process may call several."""
    global _built
    registered: list[object] = [*STUDIES.sound().values(), *EXPORTS.sound().values()]
    known, command = _built
    same = len(known) == len(registered) and all(a is b for a, b in zip(known, registered, strict=True))
    if command is None or not same:
        add_study_commands()
        add_export_commands()
        command = typer.main.get_command(app)
        _built = registered, command
    return command


NOT_A_NUMBER = re.compile(r"Input should be a valid (integer|number)\b[^.]*")
NUMBERS = {"integer": "whole number", "number": "number"}
"""What Typer reports of a value that is no number, and how we put it."""


def _refuse(words: str) -> None:
    remove_empty_folders()
    told = f"headcount: {HeadcountError(words)}"
    if sys.stderr.isatty():  # which would break lines inside words
        told = "\n".join(wrap(told, get_terminal_size().columns, break_long_words=False, break_on_hyphens=False))
    print(told, file=sys.stderr)
    sys.exit(2)


def _print_nowhere() -> None:
    """Where nothing can be printed: Python would try once more when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _readable(arguments: list[str]) -> list[str]:
    """Refuse what is not text: it could be opened, but neither written into a table nor told."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise HeadcountError(f"The argument {argument!r} is not UTF-8. Rename what it names.") from error
    return arguments


def _print_anything() -> None:
    """A terminal that lacks a letter is shown its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _usage(error: Any) -> str:
    """What is wrong with a command line, the nearest option, and where its options are told."""
    words: str = error.format_message()
    if error.ctx is None:
        return words
    if given := getattr(error, "option_name", None) if hasattr(error, "possibilities") else None:
        known = [name for option in error.ctx.command.params for name in option.opts if name.startswith("--")]
        words = f"There is no option {given}.{nearest(given, known)}"
    words = NOT_A_NUMBER.sub(lambda found: f"it must be a {NUMBERS[found[1]]}", words)
    return f"{words.rstrip('.?')}{words[-1] if words[-1] in '.?' else '.'} See '{error.ctx.command_path} --help'."


def _calm_libraries() -> None:
    """Loading bars and advice of other libraries would drown what we have to say."""
    quiet = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_VERBOSITY": "critical", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    quiet |= {"HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "TQDM_DISABLE": "1", "TOKENIZERS_PARALLELISM": "false"}
    for name, value in quiet.items():
        os.environ.setdefault(name, value)
