"""A copy of a loader is iterated by itself, whatever the loader itself was asked before."""

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

from loaderviz.loaders.copy_loader import copy_loader


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
def test_a_loader_that_was_asked_for_its_state_is_copied_without_the_iterator_that_answered():
    loader = StatefulDataLoader(range(8), batch_size=4)
    loader.state_dict()
    assert [batch.tolist() for batch in copy_loader(loader)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(list(loader)) == 2
