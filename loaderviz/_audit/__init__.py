"""Was every sample delivered exactly once? Against all that the dataset holds."""

from loaderviz._audit.audit import audit
from loaderviz._audit.audit_of_numbers import simulate_audit
from loaderviz._audit.audit_result import Audit, AuditError
from loaderviz._audit.mixing_result import Mixing

__all__ = ["Audit", "AuditError", "Mixing", "audit", "simulate_audit"]
