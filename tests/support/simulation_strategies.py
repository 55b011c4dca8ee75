"""Settings and costs of ``simulate``, as Hypothesis draws them."""

from typing import Any

from hypothesis import strategies as st

from loaderviz import Costs

SETTINGS = st.fixed_dictionaries(
    {
        "num_workers": st.integers(0, 3),
        "batch_size": st.integers(1, 4),
        "epochs": st.integers(1, 2),
        "drop_last": st.booleans(),
        "kind": st.sampled_from(["map", "iterable"]),
    }
)


@st.composite
def configurations(draw: Any, most_workers: int = 3) -> dict[str, Any]:
    """Settings of ``simulate`` for which torch's order of delivery does not depend on time."""
    given: dict[str, Any] = draw(SETTINGS)
    n_workers = given["num_workers"] = min(given["num_workers"], most_workers)
    if n_workers:
        given["prefetch_factor"] = draw(st.integers(1, 3))
        given["persistent_workers"] = draw(st.booleans())
        given["in_order"] = n_workers > 1 or draw(st.booleans())
    if given["kind"] == "map" or draw(st.booleans()):
        given["n_samples"] = draw(st.integers(1, 30))
    else:
        sizes = st.lists(st.integers(0, 9), min_size=max(1, n_workers), max_size=max(1, n_workers))
        given["shards"] = draw(sizes)
    return given


COSTS = st.builds(
    Costs,
    sample_s=st.one_of(st.just(0.5), st.lists(st.sampled_from([0, 0.1, 1, 3]), min_size=1)),
    cpu_share=st.sampled_from([0.0, 0.5, 1.0]),
    collate_s=st.sampled_from([0.0, 0.2]),
    sample_bytes=st.sampled_from([0.0, 4e8]),
    send_s=st.sampled_from([0.0, 0.1]),
    transport_s=st.sampled_from([0.0, 0.3]),
    take_s=st.sampled_from([0.0, 0.1]),
    pin_s=st.sampled_from([0.0, 0.5]),
    step_s=st.sampled_from([0.0, 0.4, 2.0]),
    step_cpu_share=st.sampled_from([0.0, 1.0]),
    dispatch_s=st.sampled_from([0.0, 0.05]),
    startup_s=st.sampled_from([0.0, 0.5]),
    boot_s=st.sampled_from([0.0, 0.5]),
    shutdown_s=st.sampled_from([0.0, 0.1]),
    cores=st.sampled_from([0.5, 1.0, 2.0, 64.0]),
)
