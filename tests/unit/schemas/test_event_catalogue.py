"""The catalogue of events."""

from migration_service.schemas.events import CATALOGUE, EventType
from support.events import check_data


def test_each_type_is_in_the_catalogue_with_an_example_of_its_data() -> None:
    assert list(CATALOGUE) == list(EventType)
    for type_, kind in CATALOGUE.items():
        assert kind.meaning().endswith(".")
        check_data(type_, kind.event()["data"])


def test_events_of_the_organisation_name_no_supplier() -> None:
    of_all = {it.value for it, kind in CATALOGUE.items() if kind.event()["import_supplier"] is None}
    assert of_all == {"api_key.expires", "audit.day_sealed", "webhook.disabled", "feed.rewound"}
