"""Holds for every test: the leak guard, the plugin that tests it, a terminal, and no deadlines."""

from hypothesis import settings

pytest_plugins = ["pytester", "leak_guard", "command_line"]

settings.register_profile("any machine", deadline=None)  # an example may take long on a busy one
settings.load_profile("any machine")
