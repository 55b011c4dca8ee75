"""One trace of the recordings of many ranks."""
