"""Was every sample delivered exactly once? Against all that the dataset holds."""

from loaderviz.auditing.audit import audit
from loaderviz.auditing.result import Audit, AuditError
from loaderviz.auditing.simulated import simulate_audit

__all__ = ["Audit", "AuditError", "audit", "simulate_audit"]
