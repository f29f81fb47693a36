"""Interrupts at random moments of calls that change a model: afterwards the model is as it was, and the next call is
right."""

import random
import signal
import sys
import threading
import time

import torch
from torch.overrides import _get_current_function_mode_stack

import headcount as hc
from families import random_task, tiny
from headcount.models import changes
from headcount.models.changes import CALL

EXACT = (changes.__file__, "/contextlib.py", "/model.py", "/attention.py", "/heads.py", "/stream.py", "/trace.py")
"""Files in which a moment too early or too late leaves something behind."""


USERS = [CALL]
"""Code that an interrupt has to come in: calls of headcount, and of users who cut by hand."""


def state(model):
    """All that a call may change and has to put back."""
    hf = model.hf
    hooks = [
        (name, kind, len(getattr(module, kind)))
        for name, module in hf.named_modules()
        for kind in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        if getattr(module, kind)
    ]
    stand_ins = [name for name, module in hf.named_modules() if "forward" in module.__dict__]
    flags = [name for name, parameter in hf.named_parameters() if not parameter.requires_grad]
    groups = [getattr(module, "num_key_value_groups", None) for module in hf.modules()]
    attention = hf.config._attn_implementation
    modes = [mode for mode in _get_current_function_mode_stack() if not getattr(mode, "over", False)]
    torchs = torch.is_grad_enabled(), len(modes)
    return hooks, stand_ins, flags, groups, attention, id(hf.generation_config), torchs, len(changes._open())


def calls():
    """Name -> a call that gives numbers to compare; on small models of two families."""
    llama, gpt2 = (tiny(family) for family in ("llama-gqa", "gpt2"))
    task = random_task(4)
    heads, edges = hc.score(llama, task, "attribution"), hc.score(gpt2, task, "eap")
    prompts = [list(example.ids) for example in task.test]

    def swept(model, scores, **options):
        return hc.sweep(model, task, scores, points=3, draws=1, **options).values["logit_diff"]

    ids = torch.tensor([prompts[0]] * 2)

    def by_hand():
        with hc.cut(llama, [(0, 0), (2, 3)]):
            hc.cut(llama, [(1, 1)]).__enter__()  # dropped, and undone by that
        with hc.cut(llama, [(1, 1)], "mean", reference=task.train):
            try:
                return llama.logits(ids).detach()
            finally:  # the user's own forward goes through torch's no_grad, which an interrupt can leave on
                torch.set_grad_enabled(True)

    USERS.append(by_hand.__code__)
    return {
        "by hand": (llama, by_hand),
        "attribution": (llama, lambda: hc.score(llama, task, "attribution").values),
        "integrated": (gpt2, lambda: hc.score(gpt2, task, "attribution-ig", steps=2).values),
        "rules": (llama, lambda: hc.score(llama, task, "eap-gim").values),
        "eap": (gpt2, lambda: hc.score(gpt2, task, "eap").values),
        "heads": (llama, lambda: swept(llama, heads)),
        "edges": (gpt2, lambda: swept(gpt2, edges)),
        "attention edges": (llama, lambda: swept(llama, None, units="attention-edges")),
        "writing": (llama, lambda: [t for row in hc.generate(llama, prompts, max_new_tokens=3)[0] for t in row]),
    }


class Interrupted:
    """Calls `function`, and raises KeyboardInterrupt in it after some seconds, or before the n-th line of certain files
    that it comes to."""

    def __init__(self, function, after=None, line=None):
        self.function, self.after, self.line = function, after, line
        self.lines, self.struck, self.other = 0, False, None

    def run(self):
        """Whether it was interrupted."""
        try:
            if self.after is not None:
                signal.signal(signal.SIGALRM, self._strike)
                signal.setitimer(signal.ITIMER_REAL, self.after)
            else:
                sys.settrace(self._trace)
            self.function()
        except KeyboardInterrupt:
            pass
        except Exception as error:  # in the place of the interrupt
            self.other = error
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            sys.settrace(None)
        return self.struck

    def _strike(self, *_):
        frame = sys._getframe(1)
        while frame is not None:  # not in the campaign itself
            if frame.f_code in USERS:
                self.struck = True
                raise KeyboardInterrupt
            frame = frame.f_back

    def _trace(self, frame, event, _):
        if not frame.f_code.co_filename.endswith(EXACT):
            return None
        if event in ("line", "call") and not self.struck:
            self.lines += 1
            if self.lines == self.line:
                self._strike()
        return self._trace


def campaign(count, seed=0, exact=0.3, say=print):
    """So many interrupts; a line for each that left something behind, and how many came in time."""
    assert threading.current_thread() is threading.main_thread()
    rng, wrong, struck = random.Random(seed), [], 0
    torch.set_grad_enabled(True)
    known = {}
    for name, (model, call) in calls().items():
        begun = time.perf_counter()
        expected = torch.as_tensor(call())
        seconds, counter = time.perf_counter() - begun, Interrupted(call, line=-1)
        counter.run()
        known[name] = model, call, expected, state(model), seconds, counter.lines
    tried = 0
    while struck < count and tried < 3 * count:
        tried += 1
        name = rng.choice(sorted(known))
        model, call, expected, before, seconds, lines = known[name]
        moments = {"line": rng.randint(1, lines)}, {"after": rng.uniform(1e-5, seconds)}
        moment = moments[rng.random() >= exact]
        tried_call = Interrupted(call, **moment)
        struck += tried_call.run()
        if tried_call.other is not None:
            wrong.append(f"{name} at {moment}: {tried_call.other!r} in the place of the interrupt")
        if state(model) != before:
            wrong.append(f"{name} at {moment}: {state(model)} instead of {before}")
        found = torch.as_tensor(call())
        if not torch.equal(found, expected):
            wrong.append(f"{name} at {moment}: the next call gives other numbers")
        if state(model) != before or changes._len_torch_function_stack():
            wrong.append(f"{name} at {moment}: changed for good")
            break
    say(f"interrupts: {struck} in {tried} calls of {len(known)} kinds, {len(wrong)} of them left something")
    return wrong, struck
