"""Records a DataLoader: the only code of loaderviz that knows torch's private parts."""

from loaderviz.recorder.session import Recording, record
from loaderviz.recorder.spans import span

__all__ = ["Recording", "record", "span"]
