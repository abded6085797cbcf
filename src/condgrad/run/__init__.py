"""A run is a value: its state, the loop, what watches it and what it returns."""

from condgrad.run.answer import Answer
from condgrad.run.callbacks import Info, Progress, StopWhen
from condgrad.run.journal import checkpoints
from condgrad.run.limits import Goal
from condgrad.run.loop import Run
from condgrad.run.result import Result, Status, Trace
from condgrad.run.saved import resume
from condgrad.run.solve import solve, start

__all__ = [
    "Answer",
    "Goal",
    "Info",
    "Progress",
    "Result",
    "Run",
    "Status",
    "StopWhen",
    "Trace",
    "checkpoints",
    "resume",
    "solve",
    "start",
]
