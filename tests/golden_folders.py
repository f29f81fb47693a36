"""Where models with known numbers lie."""

from pathlib import Path

GOLDEN = Path(__file__).parent / "golden" / "gpt2_tiny"
PLANTED = Path(__file__).parent / "golden" / "planted"
"""A three-layer GPT-2 in which two heads copy, one works against them, and the others write nothing."""
