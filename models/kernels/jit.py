"""Compile kernels: `kernel`, `inlined` and `verb`, the only ways to numba in this package.

With `NUMBA_DISABLE_JIT=1` all three return plain Python and numba is not imported: commands that
compute nothing start faster, and arithmetic can be tested without a compiler.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from collections.abc import Callable
from functools import singledispatch
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
# The numpy error model: a division by zero gives inf as in NumPy instead of a branch that stops
# vectorisation. No C program calls what is compiled here.
FLAGS: Any = {"error_model": "numpy", "no_cfunc_wrapper": True}
JIT: Any = {**FLAGS, "nogil": True}
MODELS = Path(__file__).parents[1]
KERNEL_SOURCES = (  # folders and files whose functions are compiled
    "types.py", "verbs.py", "batch_loops.py", "kernels", "features", "losses", "rules", "banks",
    "reboosted", "evaluation",
)  # fmt: skip


def cache_folder() -> Path:
    """Return numba's cache folder for exactly these kernel sources.

    Numba checks only the file of the outermost kernel, so after an edit in a kernel that it calls
    stale code would run. The folder is named by a hash of all kernel sources, so every edit misses
    the cache (docs/adr/0007). Edits of other modules, such as `model.py`, do not.
    """
    digest = hashlib.sha256()
    for name in KERNEL_SOURCES:
        root = MODELS / name
        for source in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            digest.update(source.read_bytes())
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "kaboost" / f"kernels-{digest.hexdigest()[:16]}"


if COMPILED:
    import numba
    from numba.extending import overload

    from kaboost.models.kernels.gc_pause import pause_gc_while_compiling
    from kaboost.models.kernels.linking import link_into_callers

    if "NUMBA_CACHE_DIR" not in os.environ:  # must be set before any kernel is defined
        numba.config.CACHE_DIR = str(cache_folder())  # type: ignore[attr-defined]
    pause_gc_while_compiling()


def kernel(function: Function) -> Function:
    """Compile `function` without the GIL, cached on disk.

    Only a kernel that names NumPy can allocate arrays. Others count no references to their
    arguments: counting those of a state took half of the time of an event.
    """
    if not COMPILED:
        return function
    options: Any = {**FLAGS, "_nrt": "np" in function.__code__.co_names}
    compiled = numba.njit(cache=True, nogil=True, **options)(function)
    link_into_callers(compiled)
    return cast(Function, compiled)


def inlined(function: Function) -> Function:
    """Compile like `kernel`, but inline into the callers before types are known.

    Passing a state array by array costs more than many kernels take.
    """
    if not COMPILED:
        return function
    options: Any = {**FLAGS, "_nrt": False}
    compiled = numba.njit(cache=True, nogil=True, inline="always", **options)(function)
    return cast(Function, compiled)


def compiled_twin(plain: Callable[..., Any]) -> Callable[[Function], Function]:
    """Register the decorated function as numba's implementation of `plain` (`numba.overload`)."""
    if not COMPILED:
        return lambda function: function
    return cast(Callable[[Function], Function], overload(plain, jit_options=JIT))


class Verb(Protocol):
    """A verb for type checkers: a function dispatched by the type of its first argument."""

    def __call__(self, *args: Any) -> Any: ...

    def register(self, function: Function) -> Function: ...

    def dispatch(self, kind: type) -> Callable[..., Any]: ...


def verb(default: Callable[..., Any], inline: Literal["always", "never"] = "always") -> Verb:
    """Make a kernel verb: dispatched by the type of its first argument, in Python and numba.

    If the default raises `unregistered`, every type must register an implementation; any other
    default serves the types without one. A verb over numbers only need not be inlined, which
    compiles faster.
    """
    table = singledispatch(default)
    if not COMPILED:
        return cast(Verb, table)
    required = "unregistered" in default.__code__.co_names

    def resolve(*types: Any) -> Callable[..., Any] | None:
        implementation = table.dispatch(getattr(types[0], "instance_class", object))
        return None if implementation is default and required else implementation

    resolve.__signature__ = inspect.signature(default)  # type: ignore[attr-defined]
    # Inlined before types are lowered: a call would count references to every array of its state.
    overload(table, strict=False, jit_options=JIT, inline=inline)(resolve)
    return cast(Verb, table)


def unregistered(verb_name: str, subject: object) -> TypeError:
    """Return the error for a type that has no implementation of a verb."""
    return TypeError(f"{type(subject).__name__} has no {verb_name!r}: register one in its file")
