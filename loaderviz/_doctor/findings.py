"""What the doctor says: frozen data that reads well as text and in a notebook. It runs nothing."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from loaderviz._explain import Severity, explanation_html
from loaderviz.errors import LoaderVizError
from loaderviz.text import PRINTED_WIDTH, count, wrapped

State = Literal["found", "undecided", "broken"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "advice")
_COUNTED: dict[str, tuple[str, ...]] = {
    "error": ("error",),
    "warning": ("warning",),
    "advice": ("piece of advice", "pieces of advice"),
}
_MARKS = {"error": "✗", "warning": "!", "advice": "→"}
_COLOURS = {"error": "#c1121f", "warning": "#a07400", "advice": "#0072b2"}


@dataclass(frozen=True)
class Finding:
    """What one check says about one loader.

    Attributes:
        code: stable, such as ``"LV101"``.
        title: the pitfall in one line.
        severity: ``"error"``: wrong data, a crash or a hang. ``"warning"``: likely to go wrong
            later, or memory is at risk. ``"advice"``: time is lost.
        state: ``"found"``; ``"undecided"``: there was not enough to decide; ``"broken"``: the check
            itself failed, which is a fault of loaderviz.
        evidence: what was seen in this loader, in lines; if undecided or broken, the reason.
        fix: Python code to paste; empty if nothing was found.
        notebook: the notebook that shows the pitfall.
        links: the threads where it was reported.
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
        head = f"{_MARKS[self.severity]} {self.code} {self.title} ({self.severity})"
        lines = [wrapped(head, hanging=2), *(wrapped(line, 4) for line in self.evidence)]
        if self.fix:
            lines += ["  fix:", textwrap.indent(_narrow(self.fix), "    ")]
        notebook = [f"notebook {self.notebook}"] if self.notebook else []
        more = "; ".join([f"loaderviz explain {self.code}", *notebook, *self.links])
        return "\n".join([*lines, wrapped(f"more: {more}", 2, 2)])


def _narrow(code: str) -> str:
    """The code, with the comment above the line where both together are too long."""
    lines = []
    for line in code.splitlines():
        before, _, comment = line.rpartition("  # ")
        if len(line) > PRINTED_WIDTH - 4 and before.strip():
            indent = len(line) - len(line.lstrip())
            lines += [f"{' ' * indent}# {comment}", before.rstrip()]
        else:
            lines.append(line)
    return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """Everything that the doctor found out about one loader.

    Attributes:
        loader: the loader in a few words.
        findings: the pitfalls that were found, the most severe first.
        undecided: the checks that could not decide, each with the reason.
        broken: the checks that failed themselves.
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
        """The codes of the findings, the most severe first."""
        return tuple(finding.code for finding in self.findings)

    @property
    def verdict(self) -> str:
        """How many errors, warnings and pieces of advice there are, in one line."""
        if not self.findings:
            passed = f"Nothing found: {count(len(self.clear), 'check')} passed"
            n_open = len(self.undecided) + len(self.broken)
            return f"{passed}, {n_open} could not decide" if n_open else passed
        counts = [
            count(n, *_COUNTED[severity])
            for severity in SEVERITIES
            if (n := sum(finding.severity == severity for finding in self.findings))
        ]
        return ", ".join(counts)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __str__(self) -> str:
        head = f"{wrapped(self.verdict)}\n{wrapped(self.loader)}"
        parts = [head]
        if self.troubles:
            parts.append("\n".join(["cut short:", *(wrapped(line, 4) for line in self.troubles)]))
        parts += map(str, self.findings)
        for title, group in (("not decided", self.undecided), ("checks that failed", self.broken)):
            if group:
                lines = [wrapped(f"{codes}: {reason}", 4, 2) for codes, reason in _by_reason(group)]
                parts.append("\n".join([f"{title}:", *lines]))
        return "\n\n".join(parts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """For a notebook. Everything that comes from the user's code is escaped."""
        escape = html.escape
        parts = [
            f"<p><b>{escape(self.verdict)}</b><br>{escape(self.loader)}</p>",
        ]
        if self.troubles:
            parts.append(f"<p>Cut short: {escape(' '.join(self.troubles))}</p>")
        parts += map(_html_of, self.findings)
        for title, group in (("Not decided", self.undecided), ("Checks that failed", self.broken)):
            if group:
                items = "".join(
                    f"<li>{escape(codes)}: {escape(reason)}</li>"
                    for codes, reason in _by_reason(group)
                )
                parts.append(
                    f"<details><summary>{title}: {len(group)}</summary><ul>{items}</ul></details>"
                )
        return f'<div class="loaderviz-diagnosis">{"".join(parts)}</div>'


def diagnosis_of(
    loader: str, answers: dict[str, Finding | None], troubles: tuple[str, ...]
) -> Diagnosis:
    """What all checks said, by their codes; None where one found nothing."""
    findings = [finding for finding in answers.values() if finding is not None]
    found = [finding for finding in findings if finding.state == "found"]
    return Diagnosis(
        loader=loader,
        findings=tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))),
        undecided=tuple(finding for finding in findings if finding.state == "undecided"),
        broken=tuple(finding for finding in findings if finding.state == "broken"),
        clear=tuple(code for code, finding in sorted(answers.items()) if finding is None),
        troubles=troubles,
    )


class Undecided(Exception):  # noqa: N818  # not an error but an answer
    """Raised by a check that cannot decide; the message says why."""


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
    """The codes that share a reason, and the reason."""
    codes_by_reason: dict[str, list[str]] = {}
    for finding in findings:
        codes_by_reason.setdefault(" ".join(finding.evidence), []).append(finding.code)
    return [(", ".join(codes), reason) for reason, codes in codes_by_reason.items()]


def _html_of(finding: Finding) -> str:
    escape = html.escape
    evidence = "".join(f"<li>{escape(line)}</li>" for line in finding.evidence)
    links = " · ".join(
        [
            *([f"notebook {escape(finding.notebook)}"] if finding.notebook else []),
            *(
                f'<a href="{escape(link)}">{escape(link.split("//")[-1])}</a>'
                for link in finding.links
            ),
        ]
    )
    return (
        f'<details open style="border-left: 4px solid {_COLOURS[finding.severity]}; '
        'padding-left: 0.7em; margin: 0.6em 0">'
        f"<summary><b>{escape(finding.code)} {escape(finding.title)}</b> "
        f"({finding.severity})</summary>"
        f'<ul>{evidence}</ul><pre style="font-family: monospace">{escape(finding.fix)}</pre>'
        f"{explanation_html(finding.code)}<small>{links}</small></details>"
    )
