"""What the doctor says: frozen data that reads well as text and in a notebook. Runs nothing."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from loaderviz.errors import LoaderVizError
from loaderviz.text import count

Severity = Literal["error", "warning", "advice"]
State = Literal["found", "undecided", "broken"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "advice")
_MARKS = {"error": "✗", "warning": "!", "advice": "→"}
_COLOURS = {"error": "#c1121f", "warning": "#b45309", "advice": "#0072b2"}


@dataclass(frozen=True)
class Finding:
    """What one check says of one loader.

    Attributes:
        code: stable, such as ``"LV101"``.
        title: the pitfall in one line.
        severity: ``"error"``: wrong data, a crash or a hang. ``"warning"``: wrong in what is likely
            to come, or memory at risk. ``"advice"``: time lost.
        state: ``"found"``; ``"undecided"``: there was not enough to tell; ``"broken"``: the check
            itself failed, which is a fault of loaderviz.
        evidence: what was seen in this loader, in lines; where undecided or broken, why.
        fix: Python code to paste; empty where nothing was found.
        notebook: the notebook that shows it.
        links: the threads that it comes from.
    """

    code: str
    title: str
    severity: Severity
    state: State
    evidence: tuple[str, ...]
    fix: str = ""
    notebook: str = ""
    links: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{_MARKS[self.severity]} {self.code} {self.title} ({self.severity})"]
        lines += [f"    {line}" for line in self.evidence]
        if self.fix:
            lines += ["  fix:", textwrap.indent(self.fix, "    ")]
        read = [*([f"notebook {self.notebook}"] if self.notebook else []), *self.links]
        return "\n".join([*lines, *([f"  more: {'; '.join(read)}"] if read else [])])


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """All that the doctor found out about one loader.

    Attributes:
        loader: the loader in a few words.
        findings: the pitfalls that are there, the gravest first.
        undecided: the checks that could not tell, each with the reason.
        broken: the checks that failed inside.
        clear: the codes of the checks that found nothing.
        troubles: what cut the examination short, if anything did.
    """

    loader: str
    findings: tuple[Finding, ...] = ()
    undecided: tuple[Finding, ...] = ()
    broken: tuple[Finding, ...] = ()
    clear: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of what was found, the gravest first."""
        return tuple(each.code for each in self.findings)

    @property
    def verdict(self) -> str:
        """The main thing, in one line."""
        if not self.findings:
            return f"Nothing found: {count(len(self.clear), 'check is', 'checks are')} clear"
        counts = [
            count(n, severity, "advice" if severity == "advice" else "")
            for severity in SEVERITIES
            if (n := sum(each.severity == severity for each in self.findings))
        ]
        return ", ".join(counts)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __str__(self) -> str:
        parts = [f"{self.verdict}\n{self.loader}", *map(str, self.findings)]
        if self.troubles:
            parts.append("\n".join(["cut short:", *(f"    {line}" for line in self.troubles)]))
        for title, group in (("not decided", self.undecided), ("checks that failed", self.broken)):
            if group:
                lines = [f"    {codes}: {why}" for codes, why in _by_reason(group)]
                parts.append("\n".join([f"{title}:", *lines]))
        return "\n\n".join(parts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """For a notebook. Whatever comes from the user's code is escaped."""
        say = html.escape
        parts = [
            f"<p><b>{say(self.verdict)}</b><br>{say(self.loader)}</p>",
            *map(_html_of, self.findings),
        ]
        if self.troubles:
            parts.append(f"<p>Cut short: {say(' '.join(self.troubles))}</p>")
        for title, group in (("Not decided", self.undecided), ("Checks that failed", self.broken)):
            if group:
                items = "".join(
                    f"<li>{say(codes)}: {say(why)}</li>" for codes, why in _by_reason(group)
                )
                parts.append(
                    f"<details><summary>{title}: {len(group)}</summary><ul>{items}</ul></details>"
                )
        return f'<div class="loaderviz-diagnosis">{"".join(parts)}</div>'


class Undecided(Exception):  # noqa: N818  # no error, an answer
    """Raised by a check that cannot tell; the message says why."""


class DoctorError(LoaderVizError):
    """Raised when a loader could not be examined to the end.

    Attributes:
        partial: the ``Diagnosis`` of what could be examined.
    """

    def __init__(self, message: str, partial: Diagnosis) -> None:
        super().__init__(
            f"{message}\n\nWhat could be examined (`.partial` of this error):\n{partial}"
        )
        self.partial = partial


def _by_reason(findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
    """Codes that share a reason, and the reason."""
    codes: dict[str, list[str]] = {}
    for each in findings:
        codes.setdefault(" ".join(each.evidence), []).append(each.code)
    return [(", ".join(each), why) for why, each in codes.items()]


def _html_of(finding: Finding) -> str:
    say = html.escape
    seen = "".join(f"<li>{say(line)}</li>" for line in finding.evidence)
    links = " · ".join(
        [
            *([f"notebook {say(finding.notebook)}"] if finding.notebook else []),
            *(f'<a href="{say(link)}">{say(link.split("//")[-1])}</a>' for link in finding.links),
        ]
    )
    return (
        f'<details open style="border-left: 4px solid {_COLOURS[finding.severity]}; '
        'padding-left: 0.7em; margin: 0.6em 0">'
        f"<summary><b>{say(finding.code)} {say(finding.title)}</b> "
        f"({finding.severity})</summary>"
        f'<ul>{seen}</ul><pre style="font-family: monospace">{say(finding.fix)}</pre>'
        f"<small>{links}</small></details>"
    )
