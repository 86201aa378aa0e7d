"""Connections: the meter points as their supplier knows them, with prices and meter readings."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import NormalDist


def _log_normal(median: int, spread: float) -> tuple[int, ...]:
    """Return 500 equally likely values of the log-normal distribution. One uniform number selects one."""
    normal = NormalDist()
    return tuple(int(median * math.exp(spread * normal.inv_cdf((step + 0.5) / 500))) for step in range(500))


# The yearly use of homes.
_KWH = _log_normal(2_440, 0.5)
_CUBIC_METRES = _log_normal(1_100, 0.42)


@dataclass(slots=True)
class SampleRegister:
    """One register of a meter: its price (euro / 100,000 a unit) and what it has counted so far."""

    register_id: str
    time_of_use: str | None
    share: float
    price: int
    reading: int


@dataclass(slots=True)
class Connection:
    """A meter point as its supplier knows it.

    `annual` and `annual_production` are kWh or cubic metres a year. `fixed` and `grid` are euro / 100,000
    a day. `advance` is paid each month in advance, in cents with VAT.
    """

    ean: str
    supply_type: str
    business: bool
    smart: bool
    annual: int
    registers: list[SampleRegister] = field(default_factory=list)
    production: list[SampleRegister] = field(default_factory=list)
    annual_production: int = 0
    fixed: int = 0
    grid: int = 0
    product_code: str = ""
    advance: int = 0


def make_electricity(r: Callable[[], float], ean: str, *, business: bool, solar: bool) -> Connection:
    """Return a connection for electricity. A night tariff and solar panels have their own registers."""
    smart = solar or r() < 0.88
    annual = _KWH[int(r() * 500)] * (4 if business else 1)
    connection = Connection(ean, "ELECTRICITY", business, smart, annual)
    price = 9_000 + int(r() * 8_000)
    if r() < 0.55:
        day = 0.45 + 0.2 * r()
        connection.registers = [
            SampleRegister("1.8.1", "OFF_PEAK", 1 - day, price - 900, int(r() * 30_000)),
            SampleRegister("1.8.2", "PEAK", day, price + 700, int(r() * 30_000)),
        ]
    else:
        connection.registers = [SampleRegister("1.8.0", None, 1.0, price, int(r() * 50_000))]
    if solar:
        connection.annual_production = 800 + int(r() * 4_200)
        connection.production = [
            SampleRegister("2.8.1", "OFF_PEAK", 0.32, -price, int(r() * 9_000)),
            SampleRegister("2.8.2", "PEAK", 0.68, -price, int(r() * 20_000)),
        ]
    connection.fixed = 19_726 + int(r() * 5) * 1_000
    connection.grid = 412_055 if business else 105_204
    connection.product_code = "NL_ELECTRICITY_SUPPLY"
    return connection


def make_gas(r: Callable[[], float], ean: str, *, business: bool) -> Connection:
    """Return a connection for gas."""
    smart, annual = r() < 0.86, _CUBIC_METRES[int(r() * 500)] * (3 if business else 1)
    connection = Connection(ean, "GAS", business, smart, annual)
    connection.registers = [SampleRegister("7.0.0", None, 1.0, 38_000 + int(r() * 20_000), int(r() * 40_000))]
    connection.fixed = 19_726 + int(r() * 5) * 1_000
    connection.grid = 62_318
    connection.product_code = "NL_GAS_SUPPLY"
    return connection
