"""Figures that the notebooks explain the DataLoader with."""
