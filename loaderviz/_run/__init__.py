"""Records a script that knows nothing of it: ``loaderviz run``.

``start_script.py`` starts the script in place of the command, with ``site/`` in front of
PYTHONPATH. So every Python process of the run, however it comes about, begins with
``site/sitecustomize.py``. Once a process imports torch's DataLoader, ``start_at_first_loader.py``
lays a trigger there; the first loader that is iterated sets it off, and ``process_recording.py``
records all of this process until it ends.

Nothing here imports torch before the script does.
"""
