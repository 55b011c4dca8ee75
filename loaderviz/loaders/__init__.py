"""A user's loader, looked at and copied without disturbing it."""
