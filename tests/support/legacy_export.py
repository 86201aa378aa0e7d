"""The export of an invented billing system: six kinds of file with the faults of real ones, and the truth.

Each piece of dirt is listed with its file, its line and its account. The same seed makes the same files.
"""

import gzip
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random

from migration_payloads.rules.gs1 import check_digit

#: What comes of a kind of dirt: it is read, its row is named, or the account's check names the value with
#: this code. The rows of SKIPPED are left out by a condition of the SQL.
READ = (
    *("cell_of_utf8", "lost_zeros", "brackets", "euro_sign", "us_date", "apostrophe", "break_in_quotes"),
    *("delimiter_in_quotes", "inch_sign", "small_postcode"),
)
NAMED = (
    *("unclosed_quote", "swallowed", "text_behind_quote", "too_many", "too_few", "unquoted_break", "nul"),
    *("mark", "second_header", "wrong_byte", "blank_row", "unknown_customer", "other_customer_twice"),
    "empty_key",
)
CHECKED = {
    "spreadsheet_ean": "invalid_ean",
    "letter_in_amount": "invalid",
    "day_that_is_none": "invalid_date",
    "words_for_number": "invalid_phone_number",
    "unknown_code": "invalid_choice",
    "year_of_two_digits": "invalid_date",
}
SKIPPED = ("closed", "removed_meter", "same_row_twice", "trailer")

_NAMES = ("Jansen", "de Vries", "Müller", "van den Berg", "Bakker", "Çelik", "Smit", "Noël")
_STREETS = ("Dorpsstraat", "Citroënhof", "Kade", "Lindelaan")
#: Kind and side of a booking with its type, and whether it adds to the balance.
_BOOKINGS = {
    ("INC", "C"): ("PAYMENT", 1),
    ("STORNO", "D"): ("REPAYMENT", -1),
    ("NOTA", "D"): ("SUPPLY_CHARGE", -1),
    ("AANM", "D"): ("CHARGE", -1),
    ("BONUS", "C"): ("CREDIT", 1),
}
_SETTLED = date(2025, 6, 30)
_LEDGERS = {"1300": "ENERGY_LEDGER", "1400": "SERVICE_LEDGER"}


@dataclass(frozen=True)
class Dirt:
    kind: str
    file: str
    line: int
    account: str


@dataclass
class Truth:
    """What is in the export: the numbers and sums of bookings by ledger and type, and the balances."""

    accounts: dict[str, dict[tuple[str, str], tuple[int, Decimal]]] = field(default_factory=dict)
    balances: dict[str, dict[str, Decimal]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    dirt: list[Dirt] = field(default_factory=list)
    rows: int = 0


class _File:
    """A file that is being made, line by line."""

    def __init__(self, name: str, header: str, truth: Truth) -> None:
        self.name, self._header, self._truth = name, header, truth
        self.lines: list[bytes] = []
        self.add(header)
        truth.rows -= 1

    def add(self, line: str | bytes) -> int:
        """Add a line, which may have a break. Return its number."""
        content = line.encode("cp1252") if isinstance(line, str) else line
        self.lines += content.split(b"\n")
        self._truth.rows += 1
        return len(self.lines) - content.count(b"\n")

    def add_dirt(self, kind: str, account: str, *lines: str | bytes) -> None:
        for place, line in enumerate(lines):
            number = self.add(line)
            if not place:
                self._truth.dirt.append(Dirt(kind, self.name, number, account))

    def write(self, folder: Path) -> None:
        content = b"\r\n".join(self.lines) + b"\r\n"
        (folder / self.name).write_bytes(gzip.compress(content, 1) if self.name.endswith(".gz") else content)


#: The customers, and the pieces of each kind of dirt.
_CUSTOMERS, _EACH = 400, 2


def make_export(folder: Path) -> Truth:
    """Write the files. Return what is in them."""
    return _Export().write(folder)


class _Export:
    def __init__(self) -> None:
        self._rng, self._truth = Random(1), Truth()
        kinds = [*READ, *NAMED, *CHECKED, *SKIPPED]
        chosen = self._rng.sample(range(1, _CUSTOMERS), len(kinds) * _EACH)
        #: At most one piece of dirt for each customer, so that it is known what comes of it.
        self._dirt = {number: kinds[place % len(kinds)] for place, number in enumerate(chosen)}
        header = "KLANTNR;VOORLETTERS;NAAM;GEBDAT;EMAIL;MOBIEL;STATUS;AFREKDAT;AFREK;AFREKDC;SALDO;SALDO2"
        self.customers = _File("klanten.csv", header, self._truth)
        self.addresses = _File(
            "adressen.csv", "ADRESID;KLANTNR;STRAAT;HUISNR;POSTCODE;PLAATS;SOORT", self._truth
        )
        header = "EAN;KLANTNR;ADRESID;FUEL;VANAF;FACT_TOT;METERNR;METER_VANAF;METER_TOT;TELWERK;TARIEF"
        self.connections = _File("aansluitingen.csv", header, self._truth)
        self.contracts = _File(
            "contracten.csv", "CONTRACTNR;EAN;PRODUCT;INGANG;GETEKEND;VOORSCHOT", self._truth
        )
        header = "BOEKNR;KLANTNR;GB;DATUM;SOORT;DC;BEDRAG;EXCL;BTW;FUEL;FACTUUR;OMSCHR"
        self.bookings = [
            _File(it, header, self._truth) for it in ("boekingen-2024.csv", "boekingen-2025.csv.gz")
        ]
        self.invoices = _File("notas.csv", "FACTUUR;KLANTNR;VAN;TOT;DATUM;BEDRAG;BESTAND", self._truth)
        self._number = 0

    def write(self, folder: Path) -> Truth:
        for number in range(1, _CUSTOMERS + 1):
            self._add_customer(number, self._dirt.get(number, ""))
        for file in (
            self.customers,
            self.addresses,
            self.connections,
            self.contracts,
            *self.bookings,
            self.invoices,
        ):
            file.write(folder)
        return self._truth

    def _add_customer(self, number: int, dirt: str) -> None:
        rng, account = self._rng, f"{number:08}"
        sums: dict[tuple[str, str], tuple[int, Decimal]] = defaultdict(lambda: (0, Decimal(0)))
        balances = {"ENERGY_LEDGER": Decimal(0), "SERVICE_LEDGER": Decimal(0), "settled": Decimal(0)}
        for place in range(rng.randrange(12, 20)):
            self._add_booking(number, place, dirt if place == 4 else "", sums, balances)
        settled = balances.pop("settled")
        self._truth.accounts[account], self._truth.balances[account] = dict(sums), balances
        if dirt == "closed":
            self._truth.closed.add(account)
        row = {
            "number": account,
            "initials": "A.B.",
            "name": rng.choice(_NAMES),
            "born": f"{rng.randrange(1, 29):02}-{rng.randrange(1, 13):02}-{rng.randrange(1940, 2000)}",
            "email": f"k{number}@voorbeeld.example",
            "mobile": f"0612{rng.randrange(100_000, 999_999)}",
            "status": "A",
            "settled_on": "30-06-2025",
            "settled": _amount(abs(settled)),
            "settled_side": "D" if settled < 0 else "C",
            "balance": _amount(-balances["ENERGY_LEDGER"]),
            "other": _amount(-balances["SERVICE_LEDGER"]),
        }
        changed = {
            "closed": {"status": "X"},
            "us_date": {"born": "04/26/1986"},
            "day_that_is_none": {"born": "31-02-1986"},
            "year_of_two_digits": {"born": "26-04-86"},
            "words_for_number": {"mobile": "bel na 18 uur"},
            "cell_of_utf8": {"name": "Müller"},
        }
        line = ";".join((row | changed.get(dirt, {})).values())
        content = line.encode("utf-8" if dirt == "cell_of_utf8" else "cp1252")
        if dirt in changed:
            self.customers.add_dirt(dirt, account, content)
        else:
            self.customers.add(content)
        if dirt == "same_row_twice":
            self.customers.add_dirt(dirt, account, content)
        elif dirt == "other_customer_twice":
            self.customers.add_dirt(dirt, account, line.replace("A.B.", "C."))
        elif dirt == "blank_row":
            self.customers.add_dirt(dirt, "", ";" * 11)
        elif dirt == "second_header":
            self.customers.add_dirt(dirt, "", self.customers.lines[0])
        self._add_home(number, account, dirt)

    def _add_home(self, number: int, account: str, dirt: str) -> None:
        rng = self._rng
        postcode = "1011ab" if dirt == "small_postcode" else f"{rng.randrange(1000, 9999)} KX"
        street = f"{rng.choice(_STREETS)};{number};{postcode};Zwolle"
        self.addresses.add(f"A{number};{number};{street};S")
        if dirt == "small_postcode":
            self._truth.dirt.append(Dirt(dirt, self.addresses.name, len(self.addresses.lines), account))
        if number % 20 == 0:
            self.addresses.add(f"F{number};{number};Postbus;{number};1000 AA;Zwolle;F")
        for fuel in "E" if number % 3 == 0 else "EG":
            body = f"8716943{number:08}{'EG'.index(fuel)}0"
            ean = body + str(check_digit(body))
            start = date(2019, 1, 1) + timedelta(rng.randrange(1000))
            shown = (
                {"spreadsheet_ean": "8,71694E+17", "apostrophe": f"'{ean}"}.get(dirt, ean)
                if fuel == "E"
                else ean
            )
            for register, hours in (("1.8.1", "L"), ("1.8.2", "H")) if fuel == "E" else (("1.8.0", ""),):
                line = (
                    f"{shown};{number};A{number};{fuel};{_day(start)};30-06-2025;M{number}{fuel};{_day(start)};;"
                    f"{register};{hours}"
                )
                if shown != ean and hours == "L":
                    self.connections.add_dirt(dirt, account, line)
                else:
                    self.connections.add(line)
            if dirt == "removed_meter" and fuel == "E":
                meter = f"OLD{number};01-01-2010;30-06-2020;1.8.0;"
                line = f"{ean};{number};A{number};E;{_day(start)};30-06-2025;{meter}"
                self.connections.add_dirt(dirt, account, line)
            self.contracts.add(
                f"C{number}{fuel};{shown};VAST-{fuel};{_day(start)};{_day(start)};{_amount(Decimal(120))}"
            )

    def _add_booking(
        self,
        number: int,
        place: int,
        dirt: str,
        sums: dict[tuple[str, str], tuple[int, Decimal]],
        balances: dict[str, Decimal],
    ) -> None:
        """Add a booking of a customer to its file, to the sums, and to the balances if it is not settled."""
        rng, account = self._rng, f"{number:08}"
        self._number += 1
        day = date(2024, 1, 5) + timedelta(place * 40 + rng.randrange(35))
        kinds = list(_BOOKINGS.items())
        (kind, side), (type_, sign) = kinds[-1] if dirt == "brackets" else rng.choice(kinds)
        amount = Decimal(rng.randrange(1, 300_000)) / 100
        code = "1400" if kind == "AANM" and day > _SETTLED else "1300"
        invoice = f"N{self._number}" if kind == "NOTA" else ""
        net = (amount / Decimal("1.21")).quantize(Decimal("0.01"))
        amount = net + (net * Decimal("0.21")).quantize(Decimal("0.01")) if invoice else amount
        written = _amount(amount)
        cells = {
            "id": f"B{self._number}",
            "number": account,
            "ledger": code,
            "day": _day(day),
            "kind": kind,
            "side": side,
            "amount": written,
            "net": _amount(net) if invoice else "",
            "tax": _amount(amount - net) if invoice else "",
            "fuel": "E" if invoice else "",
            "invoice": invoice,
            "note": "",
        }
        changed = {
            "lost_zeros": {"number": str(number)},
            "euro_sign": {"amount": f"€ {written}"},
            "brackets": {"amount": f"({written})"},
            "letter_in_amount": {"amount": "12,5O"},
            "unknown_code": {"kind": "ZZZ"},
            "break_in_quotes": {"note": '"eerste regel\ntweede regel"'},
            "delimiter_in_quotes": {"note": '"een;twee ""drie"""'},
            "inch_sign": {"note": 'TV 24"'},
            "unclosed_quote": {"note": '"open'},
            "swallowed": {"note": '"open'},
            "text_behind_quote": {"note": '"a"b'},
            "too_many": {"note": "een;twee"},
            "nul": {"note": "a\0b"},
            "unknown_customer": {"number": f"9{number:07}"},
            "empty_key": {"number": ""},
        }
        line = ";".join((cells | changed.get(dirt, {})).values()).encode("cp1252")
        file, amount = self.bookings[day.year > 2024], -amount if dirt == "brackets" else amount
        lines = {
            "too_few": [line.rsplit(b";", 2)[0]],
            "mark": [b"\xef\xbb\xbf" + line],
            "wrong_byte": [line + b"\x81"],
            "swallowed": [line, line.replace(b'"open', b'dicht"').replace(b"B", b"D", 1)],
        }
        if dirt in changed or dirt in lines:
            file.add_dirt(dirt, account, *lines.get(dirt, [line]))
        else:
            file.add(line)
        if dirt == "unquoted_break":
            file.add_dirt(dirt, account, b"twee")
        elif dirt == "trailer":
            file.add_dirt(dirt, "", b"### EINDE;257800")
        ledger, period = _LEDGERS[code], "settled" if day <= _SETTLED else "open"
        times, total = sums[f"{ledger}.{period}", type_]
        sums[f"{ledger}.{period}", type_] = (times + 1, total + amount)
        balances[ledger] += sign * amount
        if period == "settled":
            balances["settled"] += sign * amount
        if invoice:
            days = f"01-01-2024;{_day(day)};{_day(day)}"
            self.invoices.add(f"{invoice};{number};{days};{_amount(amount)};notas/{invoice}.pdf")


def _amount(value: Decimal) -> str:
    """Write an amount as the old system does: 1.234,50-."""
    text = f"{abs(value):,.2f}".translate(str.maketrans(",.", ".,"))
    return f"{text}-" if value < 0 else text


def _day(value: date) -> str:
    return value.strftime("%d-%m-%Y")
