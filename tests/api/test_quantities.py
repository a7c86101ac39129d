import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carscraper.api import quantities
from carscraper.api.quantities import read_quantity
from carscraper.exceptions import ApiError


@pytest.mark.parametrize(
    ("text", "unit", "number"),
    [
        ("110 kW", "kW", 110),
        ("110kw", "kW", 110),
        ("8.5 s", "s", 8.5),
        ("8,5 s", "s", 8.5),
        ("10.125 s", "s", 10.125),
        ("5.1 l/100km", "l/100km", 5.1),
        ("5.1 L/100 km", "l/100km", 5.1),
        ("38 329 Km", "km", 38329),
        ("38\u00a0329 km", "km", 38329),
        ("1\u202f038 329 Km", "km", 1038329),
        ("38,329 km", "km", 38329),
        ("38329km", "km", 38329),
        ("0 Km", "km", 0),
        ("R 499 900", "R", 499900),
        ("R499 900.00", "R", 499900.0),
        ("ZAR 1,499,900.50", "R", 1499900.5),
        ("250 Nm", "Nm", 250),
        ("1,200 Nm", "Nm", 1200),
        ("250 km/h", "km/h", 250),
        ("119 g/km", "g/km", 119),
        ("1.4l", "l", 1.4),
        ("1 395 cc", "l", 1.395),
        ("5", "", 5),
        ("  8.5  s ", "s", 8.5),
    ],
)
def test_a_quantity_is_read_in_its_unit(text, unit, number):
    value = read_quantity(text, unit)
    assert value == number
    assert type(value) is type(number)


@pytest.mark.parametrize("text", ["", " ", "-", "n/a", "N/A", "None", "none"])
@pytest.mark.parametrize("unit", ["kW", "R", ""])
def test_what_says_that_there_is_nothing_is_null(text, unit):
    assert read_quantity(text, unit) is None


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("110", "kW"),
        ("110 hp", "kW"),
        ("110 kW / 150 hp", "kW"),
        ("110 kW @ 5000", "kW"),
        ("about 110 kW", "kW"),
        ("5.1 - 6.0 l/100km", "l/100km"),
        ("-5 km", "km"),
        ("+5 km", "km"),
        ("1e3 km", "km"),
        ("٣ km", "km"),
        ("38.329 km", "km"),
        ("38 32 km", "km"),
        ("38 3290 km", "km"),
        ("1,234,5 km", "km"),
        ("1.395 cc", "l"),
        ("8,500 s", "s"),
        (".5 s", "s"),
        ("R 499 900 p/m", "R"),
        ("499 900", "R"),
        ("499 900 R", "R"),
        ("POA", "R"),
        ("1000000000001 km", "km"),
        ("9" * 400 + " km", "km"),
        ("km", "km"),
        ("five", ""),
        ("5 seats", ""),
        ("unknown", "kW"),
    ],
)
def test_what_is_not_known_for_certain_is_not_read(text, unit):
    with pytest.raises(ApiError) as refusal:
        read_quantity(text, unit)
    assert len(str(refusal.value)) < 200


@settings(deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([" ", "\u00a0", ",", ""]))
def test_thousands_may_be_set_apart_in_every_way(number, mark):
    assert read_quantity(f"{number:,} Km".replace(",", mark), "km") == number


@settings(deadline=None)
@given(st.decimals(0, 999, places=2), st.sampled_from(".,"))
def test_a_fraction_follows_a_point_or_a_comma(number, point):
    assert read_quantity(f"{number} s".replace(".", point), "s") == float(number)


@settings(deadline=None)
@given(st.text(), st.sampled_from(sorted(quantities._SPELLINGS)))
def test_any_text_is_a_number_that_is_not_negative_or_null_or_refused(text, unit):
    try:
        value = read_quantity(text, unit)
    except ApiError:
        return
    assert value is None or value >= 0
