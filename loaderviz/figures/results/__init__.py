"""Figures of what was found: an audit, a recommendation, waits, memory."""
