"""Device on which a program is solved."""

from __future__ import annotations

from condgrad._types import Array
from condgrad.backends import devices
from condgrad.backends.arrays import HOST
from condgrad.errors import ProblemError
from condgrad.run.prepare import require_portable
from condgrad.sdp._model import SDP


def place_of(sdp: SDP, device: str) -> Array:
    """Device on which eigenvalues are bounded: a GPU if runs can be there and it pays."""
    devices.check_device(device)
    sides = [b for b in sdp.blocks if b > 0]
    large = sdp.size >= devices.WORTH or max(sides, default=0) >= devices.WIDE
    if device == "cpu" or (device == "auto" and not large):
        return HOST
    try:
        for i, one in enumerate(sdp.losses):
            require_portable(one.function, f"loss {i + 1} has")
        return devices.on_gpu()
    except ProblemError:
        if device == "cuda":
            raise
        return HOST
