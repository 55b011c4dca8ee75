"""``predict``: a question with a few answers; what it is about is shown once one is chosen."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import ipywidgets as widgets
import plotly.graph_objects as go

from loaderviz.errors import LoaderVizError
from loaderviz.figures.display import html_for_export, title_html
from loaderviz.widgets.figure_view import figure_scripts
from loaderviz.widgets.html_without_kernel import StaticFallback
from loaderviz.widgets.vary import shown_parts, text_html, views_of

FEWEST, MOST = 2, 4  # answers


def predict(
    question: str, answers: Sequence[str], shown: Any, *, right: str, because: str = ""
) -> Predict:
    """Ask the reader before they see: a click on an answer shows the picture, and what is right.

    >>> predict("When does batch 0 arrive?", ["after 0.2 s", "after 0.4 s"], two,
    ...         right="after 0.4 s", because="One worker makes all of it.")

    Where no kernel runs, the picture follows the question under a title that tells nothing, and
    the answer is folded away.

    Args:
        question: one sentence.
        answers: two to four, each on a button.
        shown: a figure, anything that has one (a ``Trace``, an ``Audit``), text, or a list of
            these.
        right: the one of ``answers`` that is right.
        because: a sentence or two that say why.

    Raises:
        LoaderVizError: for fewer or more answers, two that are equal, or a right one that is not
            among them, and for something to be shown that has no figure.
    """
    return Predict(question, [*answers], shown_parts(shown), right, because)


class Predict(StaticFallback):
    """A question, its answers as buttons, and what is shown once one of them was chosen."""

    def __init__(
        self, question: str, answers: list[str], parts: list[Any], right: str, because: str
    ) -> None:
        if not FEWEST <= len(answers) <= MOST or len(set(answers)) < len(answers):
            raise LoaderVizError(f"answers={answers!r}: give {FEWEST} to {MOST}, each another one")
        if right not in answers:
            raise LoaderVizError(f"right={right!r} is none of the answers: {', '.join(answers)}")
        self._question, self._parts, self._right, self._because = question, parts, right, because
        self._buttons = {answer: _button(answer) for answer in answers}
        for answer, button in self._buttons.items():
            button.on_click(lambda _, answer=answer: self.choose(answer))
        self._reply = widgets.HTML()
        self._views = widgets.VBox()
        row = widgets.Box(list(self._buttons.values())).add_class("loaderviz-answers")
        asked = widgets.HTML(f"<style>{_CSS}</style>{_asked_html(question)}")
        super().__init__([asked, row, self._reply, self._views, figure_scripts()])
        self.add_class("loaderviz-predict")

    def choose(self, answer: str) -> None:
        """Choose an answer, as by a click: it is said whether it is right, and all is shown.

        Raises:
            LoaderVizError: for an answer that is not offered.
        """
        if answer not in self._buttons:
            raise LoaderVizError(f"answer={answer!r}: the answers are {', '.join(self._buttons)}")
        for each, button in self._buttons.items():
            button.button_style = "success" if each == self._right else ""
            mark = "✓ " if each == self._right else "✗ " if each == answer else ""
            button.description = f"{mark}{each}"
        verdict = "Right." if answer == self._right else f"Wrong. The answer: {self._right}."
        self._reply.value = _reply_html(verdict, self._because)
        if not self._views.children:
            self._views.children = views_of(self._parts)

    def _static_html(self) -> str:
        answers = " · ".join(map(html.escape, self._buttons))
        texts = [part for part in self._parts if isinstance(part, str)]
        figures = [part for part in self._parts if not isinstance(part, str)]
        told = [*map(text_html, texts), *map(title_html, figures)]
        return (
            f"{_asked_html(self._question)}<p>{answers}</p>"
            + "".join(html_for_export(_with_title(each, self._question)) for each in figures)
            + "<details class='loaderviz-guess'><summary>The answer</summary>"
            + f"{_reply_html(f'{self._right}.', self._because)}{''.join(told)}</details>"
        )


def _button(answer: str) -> widgets.Button:
    return widgets.Button(description=answer, layout=widgets.Layout(width="auto"))


def _asked_html(question: str) -> str:
    return f"<p class='loaderviz-asked'><b>Predict.</b> {html.escape(question)}</p>"


def _reply_html(verdict: str, because: str) -> str:
    text = f"<b>{html.escape(verdict)}</b> {html.escape(because)}".strip()
    return f"<p class='loaderviz-reply' role='status'>{text}</p>"


def _with_title(figure: go.Figure, title: str) -> go.Figure:
    """The same figure under a title that tells nothing of what it shows."""
    neutral = type(figure)(figure)
    neutral.layout.title.text = f"<b>{html.escape(title)}</b>"
    neutral.layout.title.subtitle.text = ""
    return neutral


_CSS = """
.loaderviz-answers { flex-flow: row wrap; gap: 4px; }
.loaderviz-asked, .loaderviz-reply { line-height: 1.45; margin: 2px; }
"""
