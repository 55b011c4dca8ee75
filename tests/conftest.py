"""Holds for every test: the leak guard, and the plugin that tests the guard."""

pytest_plugins = ["pytester", "leak_guard"]
