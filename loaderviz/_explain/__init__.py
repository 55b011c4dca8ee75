"""What each code of the doctor, and of a costly line, means: a page each.

They are for the command, the findings and the site.

Reads the pages and nothing else: to explain a code takes no torch.
"""

from loaderviz._explain.explanations import (
    About,
    Severity,
    about,
    codes,
    explanation,
    explanation_html,
    title_of,
)

__all__ = [
    "About",
    "Severity",
    "about",
    "codes",
    "explanation",
    "explanation_html",
    "title_of",
]
