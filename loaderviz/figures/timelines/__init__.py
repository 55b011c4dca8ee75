"""The timeline: its lanes, its boxes and, from afar, its bands."""
