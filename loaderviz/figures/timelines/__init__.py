"""The timeline: its lanes, its boxes and, zoomed out, its bands."""
