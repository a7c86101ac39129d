"""What is broken for good costs itself only: the rest is there, and the verdict names what is missing."""

from __future__ import annotations

import json
from urllib.parse import quote

from tests.crawl.conftest import LISTINGS, SECONDS, Site, Start
from tests.crawling import records
from tests.standin import SPEC_PATH

ONE_RETRY = {"RETRY_TIMES": 1, "CARS_PAGE_SIZE": 50}
PAGE_AT_100 = "page%5Boffset%5D=100&"


def test_a_page_of_bad_json_costs_that_page_only(site: Site, start: Start) -> None:
    site.standin.faults([{"match": PAGE_AT_100, "fault": "bad_json"}])
    run = start(settings=ONE_RETRY)
    assert run.wait(SECONDS) == 1, run.log

    lost = set(site.catalogue.ids) - set(run.cars())
    told = run.run_json()
    assert lost <= set(site.catalogue.ids[100:150])
    assert len(lost) > 40  # the featured ones of that page may have come on others
    assert told["complete"] is False
    assert [PAGE_AT_100 in request["url"] for request in told["given_up"]] == [True]
    assert "2 tries" in told["given_up"][0]["reason"]
    assert "not every listing page could be read" in told["reasons"]
    assert "NOT COMPLETE" in run.log
    assert PAGE_AT_100 in run.log.rpartition("NOT COMPLETE")[2]


def test_a_page_that_is_broken_once_costs_nothing(site: Site, start: Start) -> None:
    """The counterpart: what made the crawl above incomplete is the fault for good, not the fault."""
    site.standin.faults(
        [
            {"match": PAGE_AT_100, "fault": "bad_json", "times": 1},
            {"match": "page%5Boffset%5D=50&", "fault": "html", "times": 1},
            {"match": "page%5Boffset%5D=0&", "fault": "reset", "times": 1},
            {"match": "/specs/", "fault": "status", "status": 503, "times": 3},
            {"match": "/specs/", "fault": "truncate", "times": 1},
            {"match": "/specs/", "fault": "empty", "times": 1},
            {"match": "/specs/", "fault": "bom", "times": 3},
        ]
    )
    run = start(settings={"CARS_PAGE_SIZE": 50})
    assert run.wait(SECONDS) == 0, run.log
    assert sorted(run.cars()) == sorted(site.catalogue.ids)


def test_a_listing_without_code_costs_that_listing_only(site: Site, start: Start) -> None:
    site.standin.faults([{"match": PAGE_AT_100, "fault": "edit", "path": "data[20].attributes.code"}])
    run = start(settings=ONE_RETRY)
    assert run.wait(SECONDS) == 1, run.log

    told = run.run_json()
    [aside] = told["set_aside"]
    assert set(site.catalogue.ids) - set(run.cars()) == {aside["id"]}
    assert (aside["path"], aside["problem"]) == ("data[20].attributes.code", "is missing")
    assert (told["kept"], told["expected"]) == (LISTINGS - 1, LISTINGS)
    assert told["reasons"] == ["1 listings were set aside"]
    assert f"set aside: listing {aside['id']}: data[20].attributes.code: is missing" in run.log


def test_a_spec_that_is_broken_for_good_costs_the_spec_only_and_names_its_listings(
    site: Site, start: Start
) -> None:
    code, year = most_shared(site)
    target = f"{SPEC_PATH}{quote(code, safe='')}/{year}"
    site.standin.faults([{"match": target.replace("+", r"\+"), "fault": "status", "status": 500}])
    run = start(settings=ONE_RETRY)
    assert run.wait(SECONDS) == 1, run.log

    told = run.run_json()
    waiting = set(site.listings_of(code, year))
    assert len(waiting) > 1
    assert sorted(run.cars()) == sorted(site.catalogue.ids)
    assert {record["id"] for record in records(run.output_dir) if record["car_specs"] is None} == waiting
    assert {listing for request in told["given_up"] for listing in request["listings"]} == waiting
    assert (set(told["spec_missing"]), told["spec_missing_count"]) == (waiting, len(waiting))
    assert told["missing"] == []
    assert {
        request["url"].removeprefix(site.url.removesuffix("/fw/public")) for request in told["given_up"]
    } == {target}


def test_a_spec_that_is_missing_in_every_way_is_kept_empty_and_counted(site: Site, start: Start) -> None:
    site.standin.faults([{"match": "/specs/", "fault": "status", "status": 404, "body": "not found"}])
    run = start()
    assert run.wait(SECONDS) == 0, run.log
    records = json.loads((run.output_dir / "cars.json").read_bytes())
    assert len(records) == LISTINGS
    assert all(record["car_specs"] == [] for record in records)
    assert run.run_json()["without_specs"] == LISTINGS


def most_shared(site: Site) -> tuple[str, int]:
    """The specification that most listings share."""
    return max(sorted(site.catalogue.keys), key=lambda key: len(site.listings_of(*key)))
