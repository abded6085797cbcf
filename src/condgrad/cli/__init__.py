"""The program: options in, an application run, tables, JSON and pictures out."""

from condgrad.cli.program import app, main

__all__ = ["app", "main"]
