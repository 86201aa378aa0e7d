"""What a script prints of the requests that it has sent."""

import json


def print_result(times: list[float], seconds: float, **costs: float) -> None:
    """Print the times of all requests. `costs` are the seconds of processor time that a program used."""
    count = len(times)
    times = sorted(times)
    result = {
        "requests": count,
        "seconds": seconds,
        "p50_ms": times[count // 2] * 1000,
        "p95_ms": times[int(count * 0.95)] * 1000,
        "costs": {name: used * 1000 / count for name, used in costs.items()},
    }
    print(json.dumps(result))
