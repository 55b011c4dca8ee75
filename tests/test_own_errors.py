"""Only what began in our own code is swallowed; what comes from outside goes through."""

import ctypes
import functools
import operator
import os
import signal
import threading
import time
import warnings

import jinja2
import psutil
import pytest
from plotly import graph_objects

from loaderviz.own_errors import own_errors, own_errors_suppressed, warn_or_print
from own_code import in_recorder


@in_recorder
def guarded(call):
    """As a place in the recorder that may swallow any error of ours."""
    try:
        call()
    except own_errors(Exception):
        return "swallowed"
    return "nothing raised"


class TestOursIsWhat:
    @pytest.mark.parametrize(
        "call",
        [
            functools.partial(os.stat, "/no such file"),
            functools.partial(int, "x"),
            functools.partial({}.__getitem__, "key"),
            functools.partial(psutil.Process, 2**22 + 1),  # raised without arguments
            functools.partial(bytearray, 2**62),  # a MemoryError: CPython gives it none either
            functools.partial(graph_objects.Figure, layout={"no such": 1}),
            functools.partial(jinja2.Template("{{ one / 0 }}").render, one=1),
        ],
        ids=["OSError", "ValueError", "KeyError", "psutil", "MemoryError", "plotly", "jinja2"],
    )
    def test_fails_in_what_we_call(self, call):
        assert guarded(call) == "swallowed"

    def test_our_own_code_raises(self):
        @in_recorder
        def check():
            raise AssertionError

        assert guarded(check) == "swallowed"

    def test_is_of_the_kinds_named(self):
        with pytest.raises(ZeroDivisionError), own_errors_suppressed(OSError):
            _ = 1 / 0


class TestFromOutsideIsWhat:
    @pytest.mark.parametrize("error", [OSError(5, "gone"), ValueError("x"), RuntimeError("killed")])
    def test_a_signal_handler_raises(self, error):
        def handle(*_):
            signal.signal(signal.SIGUSR1, before)
            raise error

        before = signal.signal(signal.SIGUSR1, handle)
        with pytest.raises(type(error)) as caught:
            guarded(functools.partial(signal.raise_signal, signal.SIGUSR1))
        assert caught.value is error

    @pytest.mark.parametrize("cls", [OSError, ValueError, TimeoutError])
    def test_another_thread_raises(self, cls):
        target = threading.get_ident()

        def interrupt():
            time.sleep(0.05)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(target), ctypes.py_object(cls)
            )

        @in_recorder
        def work():
            while True:
                pass

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(cls):
            guarded(work)
        thread.join()

    def test_a_function_of_the_users_raises(self):
        def hook():
            raise OSError(28, "no space left")

        with pytest.raises(OSError, match="no space"):
            guarded(hook)


class Key:
    def __index__(self):
        return self.number()

    def __repr__(self):
        raise RuntimeError

    def number(self):
        raise OSError(5, "gone")

    __str__ = number


class Interrupted(Key):
    def number(self):
        signal.raise_signal(signal.SIGUSR1)


@in_recorder
def shown(key, method, call, of=()):
    try:
        return call(key)
    except own_errors(Exception, method=method, of=of):
        return "swallowed"


def test_a_method_that_only_we_call_may_fail_and_so_may_what_it_calls():
    assert shown(Key(), "__repr__", repr) == "swallowed"
    assert shown(Key(), "__index__", operator.index) == "swallowed"
    assert shown(Key(), "__str__", str, of=[Key()]) == "swallowed"  # though named otherwise
    with pytest.raises(OSError, match="gone"):  # whose method it is, nobody says
        shown(Key(), "__str__", str)


def test_what_a_signal_handler_raises_in_its_middle_goes_through():
    def handler(*_):
        raise OSError(5, "stop")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(OSError, match="stop"):
            shown(Interrupted(), "__index__", operator.index)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_warning_that_is_an_error_by_a_filter_is_printed(capsys):
    with pytest.warns(UserWarning, match="no space left") as told:
        warn_or_print("no space left", stacklevel=1)
    assert told[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        warn_or_print("no space left", stacklevel=1)
    assert capsys.readouterr().err == "no space left\n"
