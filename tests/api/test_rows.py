import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carscraper.api.columns import COLUMNS
from carscraper.api.rows import COLUMNS_OF_SPECS, spec_columns, typed_row
from tests.api.samples import listing


def groups(**labels):
    """Groups of one attribute each: `Top_speed="1"` stands for the label `Top speed`."""
    return [
        {"title": None, "attrs": [{"label": label.replace("_", " "), "value": value}]}
        for label, value in labels.items()
    ]


def test_a_car_becomes_one_flat_row():
    row = typed_row(
        listing()["attributes"],
        [
            *groups(Power_Maximum_Total="110 kW", Torque_Max="250 Nm", Average="5.1 l/100km", Co2="119 g/km"),
            *groups(Top_speed="210 km/h", Kerb_Weight="1 405 kg", Airbags_quantity="6", Price="R 499 900"),
            {"title": "Performance", "attrs": [{"label": "0-100Kph", "value": "8.5 s"}]},
        ],
    )
    assert (row.make, row.model, row.year, row.price_zar, row.mileage_km) == (
        "Audi",
        "A4",
        2017,
        289900,
        38329,
    )
    assert (row.seats, row.monthly_price_zar, row.image_count, row.agent_locality) == (5, 5599.5, 12, None)
    assert (row.power_kw, row.torque_nm, row.accel_0_100_s, row.fuel_l_100km) == (110.0, 250.0, 8.5, 5.1)
    assert (row.top_speed_kmh, row.co2_g_km, row.kerb_weight_kg) == (210.0, 119.0, 1405.0)
    assert (row.airbags, row.list_price_zar) == (6, 499900)
    assert row.unread == {}


def test_a_car_of_which_nothing_is_told_is_a_row_of_nulls():
    row = typed_row({}, [])
    assert all(getattr(row, name) is None for name in COLUMNS)
    assert row.unread == {}


@pytest.mark.parametrize("nothing", ["", "-", "n/a", "None"])
def test_nulls_are_real_and_are_not_unread(nothing):
    row = typed_row({"colour": nothing, "mileage": nothing, "seats": nothing}, groups(Power_Max=nothing))
    assert (row.colour, row.mileage_km, row.seats, row.power_kw) == (None, None, None, None)
    assert row.unread == {}


def test_no_distance_driven_is_a_number():
    row = typed_row({"mileage": "0 Km", "price": 0}, [])
    assert (row.mileage_km, row.price_zar) == (0, 0)


def test_what_cannot_be_read_is_null_and_named_with_its_raw_value():
    row = typed_row(
        {"mileage": "a few", "price": 99.5, "year": "20a7", "title": 5, "image": "none", "seats": "5.5"},
        groups(Power_Max="150 hp", Average="n/a"),
    )
    assert (row.mileage_km, row.price_zar, row.year, row.title, row.power_kw) == (
        None,
        None,
        None,
        None,
        None,
    )
    assert row.unread == {
        "mileage_km": "a few",
        "price_zar": 99.5,
        "year": "20a7",
        "title": 5,
        "image_count": "none",
        "seats": "5.5",
        "power_kw": "150 hp",
    }


def test_the_first_value_that_can_be_read_counts():
    specs = groups(Power_Max="100 kW", Power_Maximum_Total="n/a", Engine_Size="big", Engine_Capacity="1.4 l")
    row = typed_row({"seats": "-"}, [*specs, *groups(Seats_quantity="7")])
    assert (row.power_kw, row.engine_l, row.seats) == (100.0, 1.4, 7)
    assert row.unread == {}


@pytest.mark.parametrize(
    "told", [{}, {"fuel_type": None, "transmission": "n/a"}, {"fuel_type": 3, "transmission": []}]
)
def test_fuel_and_transmission_are_those_of_the_specification_when_the_listing_does_not_tell(told):
    specs = groups(Fuel_Type="Diesel", TRANSMISSION_TYPE=" Manual ")
    row = typed_row(told, specs)
    assert (row.fuel_type, row.transmission, row.unread) == ("Diesel", "Manual", {})
    row = typed_row({"fuel_type": "Petrol", "transmission": "Automatic"}, specs)
    assert (row.fuel_type, row.transmission) == ("Petrol", "Automatic")


def test_a_fuel_that_nobody_tells_is_named_as_the_listing_has_it():
    row = typed_row({"fuel_type": 3}, groups(Fuel_Type="-"))
    assert (row.fuel_type, row.unread) == (None, {"fuel_type": 3})


@pytest.mark.parametrize("nothing", [0, 0.0, None])
def test_an_instalment_of_nothing_is_none(nothing):
    row = typed_row({"monthly_price": nothing}, [])
    assert (row.monthly_price_zar, row.unread) == (None, {})


@pytest.mark.parametrize(
    ("address", "unread"),
    [
        ("https://www.cars.co.za/for-sale/1/", {}),
        (None, {}),
        ("-", {}),
        ("javascript:alert(1)", {"url": "javascript:alert(1)"}),
        (17, {"url": 17}),
    ],
)
def test_an_address_that_is_none_is_named(address, unread):
    assert typed_row({"website_url": address}, []).unread == unread


def test_labels_are_found_in_any_case():
    assert typed_row({}, groups(CO2="119 g/km", TOP_SPEED=" 210 km/h ")).co2_g_km == 119.0


def test_every_value_has_the_type_of_its_column():
    row = typed_row(
        listing(price=289900.0, agent_coords_0_coord=-25)["attributes"], groups(Power_Max="110 kW")
    )
    for name, kind in COLUMNS.items():
        assert type(getattr(row, name)) in (kind, type(None)), name


JSON = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.lists(st.integers(), max_size=2)
)


@settings(deadline=None)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(listing()["attributes"], JSON)))
def test_any_attributes_become_a_row_of_the_right_types(attributes):
    row = typed_row(attributes, [])
    for name, kind in COLUMNS.items():
        assert type(getattr(row, name)) in (kind, type(None)), name
        assert name not in row.unread or getattr(row, name) is None


VALUES = st.sampled_from(
    ["110 kW", "8.5 s", "n/a", "-", "", "5", "5.5", "front", "R 499 900", "1.4 l"]
) | st.text(max_size=8)
LABELS = st.sampled_from(
    ["Power Max", "power maximum total", " Engine Size ", "Seats quantity", "Driven Wheels"]
)
GROUPS = st.lists(
    st.builds(
        lambda attrs: {"title": None, "attrs": attrs},
        st.lists(
            st.builds(
                lambda label, value: {"label": label, "value": value}, LABELS | st.text(max_size=8), VALUES
            )
        ),
    ),
    max_size=4,
)


@settings(deadline=None)
@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(listing()["attributes"], JSON | VALUES)),
    GROUPS,
)
def test_a_specification_made_ready_before_gives_the_same_row(attributes, specs):
    made = spec_columns(specs)
    for _ in range(2):  # it is for many cars, none of which may change it
        row, expected = typed_row(attributes, made), typed_row(attributes, specs)
        assert row == expected
        assert list(row.unread.items()) == list(expected.unread.items())


@settings(deadline=None)
@given(GROUPS)
def test_what_a_specification_says_is_what_its_cars_are_told(specs):
    made, row = spec_columns(specs), typed_row({}, specs)
    assert tuple(getattr(row, name) for name in COLUMNS_OF_SPECS) == made.values
    assert {name: raw for name, raw in row.unread.items() if name != "seats"} == made.unread


def test_driven_wheels_are_the_first_that_are_told():
    assert typed_row({}, groups(Driven_Wheels="n/a", DRIVEN_wheels=" rear ")).driven_wheels == "rear"
