"""Records a DataLoader: the only code of loaderviz that knows torch's private parts."""

from loaderviz.recorder.session import Recording, record
from loaderviz.recorder.spans import span
from loaderviz.recorder.watched_iterable import watch

__all__ = ["Recording", "record", "span", "watch"]
