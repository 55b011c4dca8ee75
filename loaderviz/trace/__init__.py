"""Traces: immutable tables of what happened, however they came about."""

from loaderviz.trace.loading import load
from loaderviz.trace.recording.read_recording import (
    ENDED_WORKERS_NAME,
    INCIDENTS_NAME,
    MAIN_NAME,
    META_NAME,
    MORE_LOADERS_NAME,
    WINDOWS_NAME,
    read_folder,
)
from loaderviz.trace.trace import Trace

__all__ = [
    "ENDED_WORKERS_NAME",
    "INCIDENTS_NAME",
    "MAIN_NAME",
    "META_NAME",
    "MORE_LOADERS_NAME",
    "WINDOWS_NAME",
    "Trace",
    "load",
    "read_folder",
]
