"""The options of a DataLoader: what torch makes of them, and which it refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import LoaderSettings
from loaderviz.loaders.describe_loader import describe

GIVEN = st.fixed_dictionaries(
    {"num_workers": st.integers(0, 3)},
    optional={
        "prefetch_factor": st.none() | st.integers(1, 8),
        "in_order": st.booleans(),
        "persistent_workers": st.booleans(),
    },
)


@given(GIVEN)
def test_what_is_refused_is_what_torch_refuses_and_all_else_is_what_torch_makes_of_it(options):
    try:
        loader = DataLoader(range(9), **options)
    except ValueError:
        with pytest.raises(LoaderVizError, match="with num_workers=0: torch refuses it"):
            LoaderSettings(**options)
        return
    settings = LoaderSettings(**options)
    assert {name: getattr(loader, name) for name in settings.options()} == settings.options()
    same = DataLoader(range(9), **settings.changed_options())
    assert {name: getattr(same, name) for name in settings.options()} == settings.options()


@given(GIVEN)
def test_what_means_nothing_without_workers_is_put_aside(options):
    settings = LoaderSettings.of(options)
    assert LoaderSettings.of(describe(DataLoader(range(9), **settings.options()))) == settings
    if not options["num_workers"]:
        assert settings == LoaderSettings()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_workers": -1}, r"num_workers=-1.*0 or more"),
        ({"num_workers": 1.5}, r"num_workers=1.5.*whole"),
        ({"num_workers": True}, r"num_workers=True"),
        ({"num_workers": 1, "prefetch_factor": 0}, r"prefetch_factor=0.*1 or more"),
        ({"in_order": "yes"}, r"in_order='yes'.*True or False"),
    ],
)
def test_a_bad_value_is_named(options, said):
    with pytest.raises(LoaderVizError, match=said):
        LoaderSettings(**options)
