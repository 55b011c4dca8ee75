"""Was every sample delivered exactly once? Against all that the dataset holds."""

from loaderviz.auditing.audit import audit
from loaderviz.auditing.result import Audit, AuditError

__all__ = ["Audit", "AuditError", "audit"]
