"""Records a DataLoader: the only code of loaderviz that knows torch's private parts."""

import gc as _gc

# A garbage collection of all generations that becomes due by these imports would be made by each
# forked worker anew, as it copies the pages that it looks at: 0.1 s for a worker in each epoch.
_collects = _gc.isenabled()
_gc.disable()
try:
    from loaderviz.recorder.session import Recording, record
    from loaderviz.recorder.spans import span
    from loaderviz.recorder.watched_iterable import watch
finally:
    if _collects:
        _gc.enable()

__all__ = ["Recording", "record", "span", "watch"]
