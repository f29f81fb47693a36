"""headcount: how many attention heads does a behaviour need, and which ones?

    import headcount as hc

    model = hc.load("smollm2")
    task = hc.task("ioi", model)
    scores = hc.score(model, task, "attribution")
    curve = hc.sweep(model, task, scores)
    print(curve.units_needed(0.9))
    hc.plot(curve).savefig("ioi.pdf")

Names are looked up when they are first used, so that importing headcount imports no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import HeadcountError as HeadcountError

if TYPE_CHECKING:
    from .answers import Answers as Answers
    from .answers import ask as ask
    from .attention_edges import sweep_attention_edges as sweep_attention_edges
    from .circuits import Circuit as Circuit
    from .circuits import CircuitMeter as CircuitMeter
    from .comparison import compare_scores as compare_scores
    from .curves import Curve as Curve
    from .cuts import Filling as Filling
    from .cuts import cut as cut
    from .figures import plot as plot
    from .generation import Cuts as Cuts
    from .generation import Pushes as Pushes
    from .generation import generate as generate
    from .masking import MaskedAnswers as MaskedAnswers
    from .masking import mask_answers as mask_answers
    from .masking import masked_curve as masked_curve
    from .memory import forecast as forecast
    from .models import Family as Family
    from .models import Model as Model
    from .models import load as load
    from .models import register_family as register_family
    from .probing.copying import retrieval_scores as retrieval_scores
    from .probing.probe import Probe as Probe
    from .probing.probe import elbow as elbow
    from .probing.probe import probe_heads as probe_heads
    from .probing.values import answer_values as answer_values
    from .recipe import Recipe as Recipe
    from .role_sweeps import sweep_roles as sweep_roles
    from .scores import EdgeScores as EdgeScores
    from .scores import HeadScores as HeadScores
    from .scores import register_method as register_method
    from .scores import score as score
    from .scores.contrast import ContrastGates as ContrastGates
    from .scores.contrast import fit_contrast as fit_contrast
    from .scores.gate_fit import QUICK as QUICK
    from .scores.gate_fit import Fit as Fit
    from .scores.gating import fit_roles as fit_roles
    from .scores.roles import HeadRoles as HeadRoles
    from .selfcheck import check as check
    from .sparse import Evaluation as Evaluation
    from .sparse import sparsify as sparsify
    from .steering import Steering as Steering
    from .steering import directions as directions
    from .steering import steer as steer
    from .studies import run as run
    from .sweeps import sweep as sweep
    from .tasks import Completion as Completion
    from .tasks import Pair as Pair
    from .tasks import Task as Task
    from .tasks import register_task as register_task
    from .tasks import task as task
    from .tasks.questions import Question as Question
    from .tasks.questions import QuestionSet as QuestionSet
    from .tasks.questions import questions as questions

__version__ = "0.5.0"

_HOME = {
    "Answers": "answers",
    "ask": "answers",
    "Cuts": "generation",
    "Filling": "cuts",
    "Pushes": "generation",
    "generate": "generation",
    "MaskedAnswers": "masking",
    "mask_answers": "masking",
    "masked_curve": "masking",
    "retrieval_scores": "probing.copying",
    "Probe": "probing.probe",
    "elbow": "probing.probe",
    "probe_heads": "probing.probe",
    "answer_values": "probing.values",
    "Steering": "steering",
    "directions": "steering",
    "steer": "steering",
    "Question": "tasks.questions",
    "QuestionSet": "tasks.questions",
    "questions": "tasks.questions",
    "Circuit": "circuits",
    "CircuitMeter": "circuits",
    "forecast": "memory",
    "cut": "cuts",
    "plot": "figures",
    "Family": "models",
    "Evaluation": "sparse",
    "Recipe": "recipe",
    "sparsify": "sparse",
    "Model": "models",
    "load": "models",
    "register_family": "models",
    "compare_scores": "comparison",
    "ContrastGates": "scores.contrast",
    "EdgeScores": "scores.result",
    "Fit": "scores.gate_fit",
    "QUICK": "scores.gate_fit",
    "fit_contrast": "scores.contrast",
    "fit_roles": "scores.gating",
    "HeadRoles": "scores.roles",
    "sweep_roles": "role_sweeps",
    "Completion": "tasks.examples",
    "HeadScores": "scores.result",
    "register_method": "scores",
    "score": "scores",
    "check": "selfcheck",
    "run": "studies",
    "Curve": "curves",
    "sweep": "sweeps",
    "sweep_attention_edges": "attention_edges",
    "Pair": "tasks.examples",
    "Task": "tasks.examples",
    "register_task": "tasks",
    "task": "tasks",
}

__all__ = ["HeadcountError", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"headcount has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
