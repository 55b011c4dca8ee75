"""Why a loop waits: each waited second by its cause, what cutting each would save, and how to."""

from loaderviz._causes.causes_table import causes_of

__all__ = ["causes_of"]
