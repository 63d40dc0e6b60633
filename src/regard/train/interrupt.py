"""Ctrl-C and SIGTERM: the step is finished and saved first, and whoever pressed a key is told so at once."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

ENDS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupts(say: Callable[[], None], *, insist: bool = True) -> Iterator[Callable[[], bool]]:
    """Inside, the first of these signals only makes the function that is given true; a second one interrupts at once.

    Without `insist` a second one changes nothing: `torchrun` passes on a Ctrl-C that its workers have had already. It
    ends them by SIGKILL where they take longer than half a minute.

    `say` is called when the first one comes, by a thread of its own: the interpreter runs handlers of signals between
    two operations, and one operation of torch, such as a backward pass, may take many seconds. Outside the main thread
    nothing is changed.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def ask(number: int, frame: object) -> None:
        if asked.is_set() and insist:
            raise KeyboardInterrupt
        asked.set()

    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    before = {number: signal.signal(number, ask) for number in ENDS}
    earlier = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    listener = threading.Thread(target=_listen, args=(ours, earlier, say), daemon=True)
    listener.start()
    try:
        yield asked.is_set
    finally:
        signal.set_wakeup_fd(earlier, warn_on_full_buffer=False)
        for number, handler in before.items():
            signal.signal(number, handler)
        theirs.close()  # ends the listener
        listener.join()
        ours.close()


def _listen(signals: socket.socket, earlier: int, say: Callable[[], None]) -> None:
    """Wait for the numbers of signals, tell of the first, and hand on what another listener waits for."""
    said = False
    while numbers := signals.recv(64):
        if earlier >= 0:
            with suppress(OSError):
                os.write(earlier, numbers)
        if not said and any(number in numbers for number in ENDS):
            said = True
            say()
