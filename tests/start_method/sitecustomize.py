"""On PYTHONPATH, this makes every Python process start its workers as on other systems.

``make notebooks START=spawn`` uses it: notebooks, the scripts that they run, and all ranks begin
with this start method, before their first line.
"""

import multiprocessing
import os

if start := os.environ.get("LOADERVIZ_START_METHOD"):
    multiprocessing.set_start_method(start, force=True)
