"""Scores of heads and edges: one kind of method a file, all of one shape. (No torch, so that they are listed at once.)"""

from .method import METHODS, Method, Request, register_method

__all__ = ["METHODS", "Method", "Request", "register_method"]
