"""Load a Hugging Face model: a named one, a local folder, a hub id, or a module that is already in memory."""

from .families import FAMILIES as FAMILIES
from .families import Family as Family
from .families import Wires as Wires
from .families import register_family as register_family
from .loading import NAMED as NAMED
from .loading import is_local as is_local
from .loading import load as load
from .loading import takes_base as takes_base
from .model import Model as Model
from .model import require_model as require_model
