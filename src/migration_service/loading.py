"""Keeps Python from searching for garbage what a process loads when it starts, and keeps until it ends.

While modules are loaded, objects are only added. Searching all of them again and again takes a fifth of the
processor time of a start, and would go on with each full search later. What is left out of later searches is
also written to less, so that processes that are forked afterwards share more memory.
"""

import gc


def begin_loading() -> None:
    """Search for no garbage until `end_loading`."""
    gc.disable()


def end_loading() -> None:
    """Search for garbage again, but not in what has been loaded by now."""
    gc.freeze()
    gc.enable()
