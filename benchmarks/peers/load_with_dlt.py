"""Peer c: dlt loads a file of payloads into PostgreSQL: python load_with_dlt.py FILE DATASET

dlt writes nested lists to tables of their own. It uses its fastest options: CSV files with COPY instead of
INSERT, and as many processes and threads as the service has.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dlt
import orjson


def main(file: str, dataset: str) -> None:
    @dlt.resource(name="account", write_disposition="append")
    def accounts() -> Iterator[list[Any]]:
        page = []
        with Path(file).open("rb") as lines:
            for line in lines:
                page.append(orjson.loads(line))
                if len(page) == 500:
                    yield page
                    page = []
        yield page

    pipeline = dlt.pipeline(
        pipeline_name=f"bench_{dataset}",
        pipelines_dir=str(Path(file).parent / "dlt"),
        destination=dlt.destinations.postgres(credentials=os.environ["DATABASE_URL"]),
        dataset_name=dataset,
    )
    started = time.perf_counter()
    pipeline.run(accounts(), loader_file_format="csv")
    print(json.dumps({"seconds": time.perf_counter() - started}))


if __name__ == "__main__":
    main(*sys.argv[1:])
