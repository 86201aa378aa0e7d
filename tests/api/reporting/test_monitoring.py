"""The dashboard and the alert rules use metrics that exist."""

import re
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families

from migration_service.blueprints import metrics_collector
from migration_service.services.setup.backups import record_backup
from migration_service.tasks.counts import count_accounts_for_metrics
from migration_service.tasks.resources import WorkerResources

FOLDER = Path(__file__).resolve().parents[3] / "monitoring"
NAME = re.compile(r"\bmigration_[a-z0-9_]+")
#: Suffixes that the parser removes from the name of a family.
SUFFIXES = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("_total",), "gauge": ("",)}


@pytest.fixture
def exported(
    client: FlaskClient, worker_resources: WorkerResources, monkeypatch: pytest.MonkeyPatch
) -> set[str]:
    """The name of every sample that /metrics can have."""
    # Another test may have requested it a moment ago.
    monkeypatch.setattr(metrics_collector, "FRESH_SECONDS", -1.0)
    worker_resources.redis.delete("migration:metrics:rest")
    count_accounts_for_metrics()
    with worker_resources.Session.begin() as session:
        record_backup(session)
    text = client.get("/metrics", environ_overrides={"REMOTE_ADDR": "127.0.0.1"}).text
    families = list(text_string_to_metric_families(text))
    return {family.name + suffix for family in families for suffix in SUFFIXES.get(family.type, ())}


@pytest.mark.parametrize("file", ["grafana-dashboard.json", "alerts.yml"])
def test_every_metric_of_a_query_is_exported(file: str, exported: set[str]) -> None:
    asked = set(NAME.findall((FOLDER / file).read_text()))
    assert asked
    assert asked - exported == set()


def test_every_metric_of_the_service_is_on_the_dashboard(exported: set[str]) -> None:
    shown = set(NAME.findall((FOLDER / "grafana-dashboard.json").read_text()))
    ours = {name for name in exported if name.startswith("migration_")}
    stems = {re.sub(r"_(bucket|count|sum)$", "", name) for name in ours}
    on_an_alert_only = {"migration_counted_timestamp_seconds"}
    assert {stem for stem in stems if not any(name.startswith(stem) for name in shown)} == on_an_alert_only


def _alerts() -> dict[str, str]:
    """The runbook of each alert, by its name."""
    text = (FOLDER / "alerts.yml").read_text()
    names = re.findall(r"^      - alert: (\w+)$", text, re.MULTILINE)
    runbooks = re.findall(r'^          runbook_url: "(.+)"$', text, re.MULTILINE)
    return dict(zip(names, runbooks, strict=True))


def test_each_alert_has_its_section_in_the_runbooks_and_each_section_its_alert() -> None:
    page = FOLDER.parent / "docs/operators/runbooks.md"
    sections = re.findall(r"^## (\w+)$", page.read_text(), re.MULTILINE)
    assert _alerts() == {name: f"docs/operators/runbooks.md#{name.lower()}" for name in sections}


def test_each_section_says_what_it_means_how_to_find_the_cause_and_what_to_do() -> None:
    page = (FOLDER.parent / "docs/operators/runbooks.md").read_text()
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        found = re.findall(r"^\*\*(.+?)\*\*", section, re.MULTILINE)
        assert found == ["Meaning.", "Find the cause.", "Do."], section.splitlines()[0]


def test_each_alert_is_tried_in_its_fault() -> None:
    """`make prometheus-check` tries them with promtool."""
    tried = re.findall(r"^  - name: (\w+)$", (FOLDER / "alerts_test.yml").read_text(), re.MULTILINE)
    assert sorted(tried) == sorted(_alerts())
