"""Scores of heads and edges: one method a file, all of one shape. Imports no torch, so that listing methods is quick."""

from .method import METHODS as METHODS
from .method import Method as Method
from .method import Request as Request
from .method import register_method as register_method
