"""The command line: parse, call, print. Nothing here imports torch until a command needs it."""

import os
import sys

from ..core.errors import HeadcountError
from . import cache, models, show
from .app import app
from .run import add_study_commands, study_first

__all__ = ["app", "cache", "main", "models", "show"]


def main() -> None:
    """The entry point: bad input is one sentence on stderr and exit code 2, never a traceback."""
    _calm_libraries()
    try:
        arguments = study_first(sys.argv[1:])
        add_study_commands()
        app(args=arguments, prog_name="headcount")
    except HeadcountError as error:
        print(f"headcount: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)


def _calm_libraries() -> None:
    """Loading bars and advice of other libraries would drown what we have to say."""
    quiet = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_VERBOSITY": "critical", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    for name, value in {**quiet, "TQDM_DISABLE": "1", "TOKENIZERS_PARALLELISM": "false"}.items():
        os.environ.setdefault(name, value)
