"""Print the queries of the dashboard as rules, which promtool checks: `make prometheus-check`."""

import json
import sys
from pathlib import Path

DASHBOARD = Path(__file__).parent.parent / "monitoring/grafana-dashboard.json"


def main() -> None:
    """Print one rule for each query."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    rules = [
        {
            "record": f"panel_{panel['id']}_{target['refId']}",
            "expr": target["expr"].replace("$__rate_interval", "1m"),
        }
        for panel in panels
        for target in panel["targets"]
    ]
    json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, sys.stdout)


if __name__ == "__main__":
    main()
