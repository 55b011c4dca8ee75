"""The figure of a recommendation: what is drawn, where, in which words."""

import json
from dataclasses import replace

import pytest

from loaderviz import Costs, LoaderVizError, recommend, simulate
from loaderviz.figures import style


@pytest.fixture(scope="module")
def found():
    costs = Costs(sample_s=0.005, step_s=0.011, take_s=2e-4, transport_s=3e-4, cores=2.0)
    trace = simulate(costs, num_workers=1, batch_size=8, n_batches=60)
    return recommend(trace, n_batches=1000, max_workers=8)


def points(figure, name):
    (drawn,) = [trace for trace in figure.data if trace.name == name]
    return list(zip(drawn.x, drawn.y, strict=True))


def texts(figure):
    return [each.text for each in figure.layout.annotations]


def test_the_title_is_the_verdict_and_below_it_is_what_it_rests_on(found):
    title = found.figure().layout.title
    assert title.text == f"<b>{found.verdict}</b>"
    assert "predicted from 60 simulated batches" in title.subtitle.text


def test_every_candidate_is_a_point_at_its_workers(found):
    figure, table = found.figure(), found.candidates
    drawn = points(figure, "predicted") + points(figure, "other settings")
    assert sorted(drawn) == sorted(zip(table["num_workers"], table["samples_per_s"], strict=True))
    line = points(figure, "predicted")
    assert [workers for workers, _ in line] == list(range(9))


def test_the_recommended_setting_and_that_of_now_are_marked(found):
    figure = found.figure()
    ((workers, _),) = points(figure, "recommended")
    assert workers == found.settings["num_workers"] == 4
    assert points(figure, "now")[0][0] == 1
    assert {"recommended", "now", "predicted"} <= set(texts(figure))
    assert "measured" not in texts(figure)


def test_where_they_are_the_same_one_label_says_so(found):
    table = found.candidates.assign(present=found.candidates["recommended"])
    labels = texts(replace(found, candidates=table).figure())
    assert "recommended, as it is now" in labels
    assert "now" not in labels


def test_the_end_of_the_cpus_is_marked_where_it_is_in_view(found):
    (shade,) = found.figure().layout.shapes
    assert (shade.x0, shade.label.text) == (2, "more than the 2 CPUs allowed")
    assert not replace(found, cpu_allowance=64.0).figure().layout.shapes


def test_what_was_measured_is_labelled_as_that_and_what_does_not_fit_is_crossed_out(found):
    table = found.candidates.assign(present=False)
    table.loc[3, ["measured_per_s", "error"]] = 123.0, 0.5
    table.loc[5, "fits"] = False
    figure = replace(found, candidates=table).figure()
    assert len(points(figure, "does not fit")) == 1
    assert not points(found.figure(), "does not fit")
    assert points(figure, "measured") == [(table.loc[3, "num_workers"], 123.0)]
    assert "measured" in texts(figure)
    (drawn,) = [trace for trace in figure.data if trace.name == "measured"]
    assert "measured 123 (+50 % predicted)" in drawn.hovertext[0]
    table.loc[4, "measured_per_s"], table.loc[4, "present"] = 99.0, True
    figure = replace(found, candidates=table).figure()
    (label,) = [each for each in figure.layout.annotations if each.text == "measured"]
    assert (label.x, label.y) == (table.loc[3, "num_workers"], 123.0)  # apart from that of now


def test_light_and_dark_differ_in_text_and_grid(found):
    for name, theme in style.THEMES.items():
        figure = found.figure(theme=name)
        assert figure.layout.title.font.color == theme.text
        assert figure.layout.yaxis.gridcolor == theme.grid
        json.loads(figure.to_json())
    with pytest.raises(LoaderVizError, match="theme='blue' is not one of light, dark"):
        found.figure(theme="blue")


def test_it_ends_a_notebook_cell_with_words_and_figure(found, capsys, monkeypatch):
    from loaderviz.figures.display import Figure

    shown = []
    monkeypatch.setattr(Figure, "_ipython_display_", lambda figure: shown.append(figure))
    found._ipython_display_()
    assert capsys.readouterr().out.strip() == str(found) == repr(found)
    assert len(shown) == 1
