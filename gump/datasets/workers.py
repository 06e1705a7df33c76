"""Processes that share the work on many things."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


def num_cores() -> int:
    """The cores that this process may use or, where the system does not tell, all there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def process_pool(
    num_processes: int,
    start: str,
    initializer: Callable[..., Any] | None = None,
    initargs: tuple[Any, ...] = (),
    advice: str = "on fewer cores there are fewer, which need less (`taskset -c 0` before a command leaves it one)",
) -> Iterator[ProcessPoolExecutor]:
    """Processes that share work; if one of them is ended from outside, the error says so in a sentence. After any error, and after Ctrl-C, all of
    them are ended at once, whatever they are at.

    Args:
        num_processes: How many there are.
        start: How they are started, ``"fork"`` or ``"spawn"``.
        initializer: What each does first.
        initargs: Its arguments.
        advice: What to do where memory is short.
    """
    others = set(active_children())
    with ProcessPoolExecutor(num_processes, get_context(start), _begin, (initializer, initargs)) as pool:
        try:
            yield pool
        except BrokenExecutor as error:
            raise ChildProcessError(
                f"one of {num_processes} processes was ended from outside, perhaps for want of memory; {advice}"
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(active_children()) - others:
                child.terminate()
                child.join()
            raise


def _begin(initializer: Callable[..., Any] | None, initargs: tuple[Any, ...]) -> None:
    """What each process does first; one whose parent is gone, however that was ended, ends too."""
    Thread(target=_end_with_parent, daemon=True).start()
    if initializer is not None:
        initializer(*initargs)


def _end_with_parent() -> None:
    if parent := parent_process():
        parent.join()
        os._exit(1)


def show_progress(things: Iterable[T], total: int, what: str, show: bool = True) -> Iterator[T]:
    """Hands things on and shows a bar meanwhile, on a terminal and if ``rich`` is installed; it vanishes in the end.

    Args:
        things: What takes its time.
        total: How many there are.
        what: What is done with them.
        show: Whether to show it at all.
    """
    try:
        from rich.console import Console
        from rich.progress import track
    except ImportError:
        yield from things
    else:
        console = Console(stderr=True)
        yield from track(things, what, total, console=console, transient=True, disable=not (show and console.is_terminal))
