"""Changes to a model, undone whatever happens: hooks, stand-ins, flags, attributes.

An interrupt (Ctrl-C in a notebook) can come between any two instructions. So a change is noted before it is made, by
what undoes it, and to undo it twice, or without its having been made, does no harm. What is noted is undone when the
block ends; once more, should an interrupt have come while that was done; once more when the call that the user made has
ended, should it have come before; and by the next call, should there have been several.
"""

import io
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from functools import partial, wraps
from types import FrameType
from typing import ParamSpec, TypeVar, cast

import torch
from torch import nn
from torch._C import _len_torch_function_stack
from torch.overrides import TorchFunctionMode, _get_current_function_mode, _pop_mode

from ..core.progress import say

P = ParamSpec("P")
R = TypeVar("R")


class Changes:
    """What a block changes."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []
        self.of_call = _inside_a_call()

    def note(self, undo: Callable[[], object]) -> None:
        """What will undo the change that comes next."""
        self._undo.append(undo)

    def before(self, module: nn.Module, hook: Callable[..., object], with_kwargs: bool = False) -> None:
        """Call a hook before a module runs; with what it is given by name, where asked for."""
        self.note(partial(_unhook, module._forward_pre_hooks, module._forward_pre_hooks_with_kwargs, hook))
        module.register_forward_pre_hook(hook, with_kwargs=with_kwargs)

    def after(self, module: nn.Module, hook: Callable[..., object], first: bool = False) -> None:
        """Call a hook after a module has run; before the hooks that are there, or behind them."""
        self.note(partial(_unhook, module._forward_hooks, module._forward_hooks_with_kwargs, hook))
        module.register_forward_hook(hook, prepend=first)

    def instead(self, module: nn.Module, forward: Callable[..., object]) -> None:
        """Call another function in the place of a module's own `forward`.

        A hook can change what a module returns, but the module has done its work by then. Where that work is not needed
        (what a circuit leaves out, projections that are computed head by head), a stand-in saves it."""
        self.note(partial(_restore, module, module.__dict__.get("forward")))
        module.forward = forward

    def set(self, thing: object, name: str, value: object) -> None:
        """Give an attribute another value."""
        self.note(partial(setattr, thing, name, getattr(thing, name)))
        setattr(thing, name, value)

    def undo(self) -> None:
        """The last change first."""
        while self._undo:
            self._undo[-1]()
            self._undo.pop()
        if self in _open():
            _open().remove(self)


def _unhook(hooks: dict[int, Callable[..., object]], named: dict[int, bool], hook: Callable[..., object]) -> None:
    for number in [number for number, other in hooks.items() if other is hook]:
        named.pop(number, None)
        hooks.pop(number, None)


def _restore(module: nn.Module, forward: Callable[..., object] | None) -> None:
    if forward is None:
        module.__dict__.pop("forward", None)
    else:
        module.forward = forward


@contextmanager
def changing() -> Iterator[Changes]:
    """Changes that last as long as the block."""
    changes = Changes()
    _open().append(changes)
    try:
        try:
            yield changes
        finally:
            changes.undo()
    finally:
        changes.undo()  # what an interrupt of the first time has left


@contextmanager
def stand_in(module: nn.Module, forward: Callable[..., object]) -> Iterator[None]:
    """Call `forward` in the module's place; what was there before (another stand-in, say) comes back afterwards."""
    with changing() as changes:
        changes.instead(module, forward)
        yield


class Block(io.IOBase):
    """A `with` of the user's own, around a generator. Interrupts come as a function of Python's is entered, and when
    one written in C has returned. So `__exit__` is that of `io.IOBase`, in C, which calls `close`; that is the
    generator's, in C too, and an interrupt that comes as it goes on is raised inside it, and its `finally` follows."""

    def __init__(self, generator: Generator[None]) -> None:
        self._generator = generator
        self.close = generator.close  # type: ignore[method-assign]

    def __enter__(self) -> None:  # type: ignore[override]
        try:
            next(self._generator)
        except BaseException:
            self._generator.close()
            raise


def own_block(function: Callable[P, Iterator[None]]) -> Callable[P, Block]:
    """Decorates, in the place of `contextmanager`, what users put into a `with` of their own."""

    @wraps(function)
    def make(*args: P.args, **kwargs: P.kwargs) -> Block:
        return Block(_undone_in_the_end(function(*args, **kwargs)))

    return make


def _undone_in_the_end(steps: Iterator[None]) -> Generator[None]:
    """The generator of a block, and what it has changed once more, should an interrupt come while it is undone."""
    before, modes, own, gradients = len(_open()), _len_torch_function_stack(), None, torch.is_grad_enabled()
    try:
        with closing(cast(Generator[None], steps)):
            next(steps)
            own = _open()[before:]
            yield
    finally:
        for changes in (_open()[before:] if own is None else own)[::-1]:
            changes.undo()
        while _len_torch_function_stack() > modes:
            _pop_mode()
        if own is None:  # else it is for the user's own block to say
            torch.set_grad_enabled(gradients)


def leaves_no_trace(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates what users call: whatever happens in it, models are afterwards as they were before, and so is whether
    torch keeps gradients."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not _inside_a_call():
            _clean_up()
        before, modes, gradients = len(_open()), _len_torch_function_stack(), torch.is_grad_enabled()
        try:
            return function(*args, **kwargs)
        finally:
            for changes in _open()[before:][::-1]:
                changes.undo()
            while _len_torch_function_stack() > modes:
                _pop_mode()
            torch.set_grad_enabled(gradients)

    return call


class EndingMode(TorchFunctionMode):
    """A mode of torch's that knows when its block is over. An interrupt may come while torch has set a mode aside:
    there is then none to end, and torch puts it back whenever Python drops the traceback. It must do nothing then."""

    over = False

    def __exit__(self, *error: object) -> None:
        self.over = True
        if _get_current_function_mode() is self:
            super().__exit__(*error)  # type: ignore[no-untyped-call]


_by_thread = threading.local()


def _open() -> list[Changes]:
    """Those of this thread that are not undone."""
    if not hasattr(_by_thread, "open"):
        _by_thread.open = []
    found: list[Changes] = _by_thread.open
    return found


def _inside_a_call() -> bool:
    """Whether a call that leaves no trace is under way, apart from the one that asks."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not CALL:
        frame = frame.f_back
    return frame is not None


CALL = leaves_no_trace(len).__code__
"""Which all of them share."""


def _clean_up() -> None:
    """Undo what calls have left that are over; what users have changed themselves, by `headcount.cut` say, stays."""
    left = [changes for changes in _open() if changes.of_call]
    for changes in left[::-1]:
        changes.undo()
    back = False
    while isinstance(mode := _get_current_function_mode(), EndingMode) and mode.over:
        _pop_mode()
        back = True
    if left or back:
        say("Interrupts had left changes in a model; they are undone.")
