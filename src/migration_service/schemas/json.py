"""JSON in and out: parsed once, exactly. Numbers with a fraction are Decimals, never floats."""

import json
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

import msgspec

from migration_service.errors import ErrorItem, ParseError

encode_json: Callable[[Any], bytes] = msgspec.json.Encoder(decimal_format="number").encode
"""To JSON text: Decimals as numbers with all their digits, dates in ISO 8601, UTC as Z."""

# An escape of one half of a surrogate pair; text with such escapes is looked at once more.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_json(body: bytes) -> Any:
    """The value that the JSON text `body` holds (section 4: bodies are JSON, in UTF-8).

    Raises ParseError for anything else: also for NaN and Infinity, half of a surrogate pair, text that
    is not UTF-8, a key given twice in one object, and nesting beyond what the parser follows.
    """
    try:
        value = _decode(body.decode())
        if _SURROGATE.search(body):
            encode_json(value)  # refuses half a pair, which PostgreSQL could not store
    except UnicodeError as error:
        raise _parse_error("The body is not UTF-8 text, or has half of a surrogate pair.") from error
    except json.JSONDecodeError as error:
        raise _parse_error(f"The body is not valid JSON: {error}.") from error
    except RecursionError as error:
        raise _parse_error("The body nests too deep.") from error
    except (ValueError, InvalidOperation) as error:  # more digits than a number may have
        raise _parse_error("The body has a number that is too large.") from error
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _parse_error(f"The key {twice[:80]!r} is given twice in one object.")
    return value


def _constant(name: str) -> NoReturn:
    raise _parse_error(f"{name} is not a JSON value.")


def _parse_error(detail: str) -> ParseError:
    return ParseError(detail, errors=[ErrorItem(ParseError.code, detail)])


_decode = json.JSONDecoder(object_pairs_hook=_object, parse_float=Decimal, parse_constant=_constant).decode
