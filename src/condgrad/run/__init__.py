"""A run is a value: its state, the loop, what watches it and what it returns."""

from condgrad.run.answer import Answer
from condgrad.run.begin import start
from condgrad.run.callbacks import Info, Progress, StopWhen
from condgrad.run.journal import checkpoints
from condgrad.run.limits import Goal
from condgrad.run.loop import Run
from condgrad.run.result import Result, Status, Trace
from condgrad.run.saved import resume
from condgrad.run.solve import solve
from condgrad.run.state import RunState

__all__ = [
    "Answer",
    "Goal",
    "Info",
    "Progress",
    "Result",
    "Run",
    "RunState",
    "Status",
    "StopWhen",
    "Trace",
    "checkpoints",
    "resume",
    "solve",
    "start",
]
