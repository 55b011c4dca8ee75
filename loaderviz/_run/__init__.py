"""Records a script that need not be changed for it: ``loaderviz run``.

``start_script.py`` starts the script in place of the command, with ``site/`` in front of
PYTHONPATH. So every Python process of the run, however it is started, begins with
``site/sitecustomize.py``. Once a process imports torch's DataLoader, ``start_at_first_loader.py``
puts a trigger there; the first loader that is iterated sets it off, and ``process_recording.py``
records this process until it ends.

Nothing here imports torch before the script does.
"""
