"""Ctrl-C: told at once, obeyed after the step; twice, obeyed at once."""

import ctypes
import os
import select
import signal
import threading

import pytest

from regard.train.interrupt import ENDS, interrupts


@pytest.mark.parametrize("number", ENDS)
def test_the_first_is_noted_and_the_second_interrupts(number: signal.Signals) -> None:
    before, said = signal.getsignal(number), []
    with interrupts(lambda: said.append(1)) as asked:
        assert not asked()
        signal.raise_signal(number)
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert said == [1]
    assert signal.getsignal(number) is before
    assert signal.set_wakeup_fd(-1) == -1


def test_torchrun_passes_a_signal_on_and_that_changes_nothing() -> None:
    with interrupts(lambda: None, insist=False) as asked:
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        assert asked()


def test_it_is_told_while_one_operation_goes_on() -> None:
    """The main thread is inside one long operation, in which Python handles no signal, until the word is out."""
    reader, writer = os.pipe()
    late = threading.Timer(60, os.write, (writer, b"?"))  # for a mistake: the test fails, and does not hang
    late.daemon = True
    late.start()
    answer, buffer = ctypes.CDLL(None).read, ctypes.create_string_buffer(1)
    with interrupts(lambda: os.write(writer, b"!")) as asked:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # so another thread receives it, not this operation
        try:
            os.kill(os.getpid(), signal.SIGINT)
            assert answer(reader, buffer, 1) == 1
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        assert buffer.raw == b"!"
        assert asked()
    late.cancel()
    os.close(reader)
    os.close(writer)


def test_who_listened_before_still_hears() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    try:
        with interrupts(lambda: None):
            signal.raise_signal(signal.SIGINT)
            assert select.select([reader], [], [], 60)[0]
        assert os.read(reader, 9) == bytes([signal.SIGINT])
        assert signal.set_wakeup_fd(-1) == writer
    finally:
        signal.set_wakeup_fd(-1)
        os.close(reader)
        os.close(writer)


def test_another_thread_changes_nothing() -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with interrupts(lambda: None) as asked:
            seen.append((asked(), signal.getsignal(signal.SIGINT) is before))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, True)]
