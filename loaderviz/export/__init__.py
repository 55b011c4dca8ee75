"""Traces for other programs: Perfetto and chrome://tracing, and tables as CSV."""
