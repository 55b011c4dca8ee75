"""What a test of words, notes and refusals need not wait for."""

import pytest

from loaderviz._recommend import predict


@pytest.fixture
def brief_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer batches are simulated of each setting, once: a tenth of the time, and the same pace."""
    monkeypatch.setattr(predict, "COUNTED", 80)
    monkeypatch.setattr(predict, "FILLING", 20)
    monkeypatch.setitem(predict.predict.__kwdefaults__, "seeds", predict.SEEDS[:1])
