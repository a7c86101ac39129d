"""Which attributes of a car hold something, told from what it has in common with others."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from carscraper.items import Car
from carscraper.monitoring.history import CarsHistory

values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 1),
    st.just(0.0),
    st.text("a", max_size=1),
    st.just([]),
    st.just({}),
)


@given(st.dictionaries(st.sampled_from("abcdef"), values), st.sampled_from([None, [], [{"title": None}]]))
def test_null_and_empty_text_and_lists_hold_nothing(attributes: dict[str, Any], specs: Any) -> None:
    history = CarsHistory.__new__(CarsHistory)
    shape = history.shape_of(Car("1", "", "", attributes, specs))
    held = [name for name, value in attributes.items() if value is not None and value not in ("", [])]
    assert list(history.filled_in(shape)) == held + ["car_specs"] * bool(specs)
    assert len({shape, history.shape_of(Car("2", "", "", attributes, specs))}) == 1
