"""Explained effect against heads, edges or attention edges kept, dense models beside sparse ones."""

from ..kind import StudyKind
from .settings import AttentionEdgesKept, EdgesKept, HeadsKept

HOME = __name__
HEADS_KEPT = StudyKind("heads-kept", "How many heads a behaviour needs, and which.", HeadsKept, HOME, "explained")
EDGES_KEPT = StudyKind("edges-kept", "How many edges a behaviour needs, and which.", EdgesKept, HOME, "explained")
OVER_TOKENS = "How many edges between tokens each prompt needs."
ATTENTION_EDGES_KEPT = StudyKind("attention-edges-kept", OVER_TOKENS, AttentionEdgesKept, HOME, "explained")
