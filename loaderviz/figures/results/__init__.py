"""Figures of results: an audit, a recommendation, waits, memory."""
