"""A trace as events of the Chrome trace format, which Perfetto and chrome://tracing open."""

from loaderviz.export.perfetto.export_perfetto import export

__all__ = ["export"]
