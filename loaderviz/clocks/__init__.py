"""The clock that times are read from, and how far the clocks of several machines are apart."""
