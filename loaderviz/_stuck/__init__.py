"""``loaderviz stuck``: says of a run that does not go on which process holds it up, and why.

``loop_now`` and ``task_now`` read what the run has written, ``process_view`` what the kernel says,
``causes_of_standstill`` concludes for one process, ``examine_rank`` for one rank, ``examine_run``
for all.
"""
