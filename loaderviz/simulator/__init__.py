"""What would happen with other settings: torch's DataLoader as a discrete-event model.

``Costs`` say what the work takes; ``simulate`` runs a loader on them and returns a ``Trace``. It
starts no process, reads no file and no clock.
"""

from loaderviz.simulator.costs import Costs
from loaderviz.simulator.simulate import simulate

__all__ = ["Costs", "simulate"]
