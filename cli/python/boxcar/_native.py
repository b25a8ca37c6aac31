"""boxcar._core, if it was built."""
from __future__ import annotations

from typing import Any


def core() -> Any:
    """The module. Raises ImportError if Boxcar was built without pybind11."""
    try:
        from . import _core
    except ImportError as error:
        raise ImportError(f"{error}; layouts and the parts of plans need boxcar._core, which is built where CMake finds "
                          "pybind11 (Debian: pybind11-dev, python3-dev)") from error
    return _core
