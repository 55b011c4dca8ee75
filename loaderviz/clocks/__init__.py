"""Whose clock says what: one clock for each process, and how far those of machines are apart."""
