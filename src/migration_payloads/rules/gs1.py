"""GS1 check digits, for the EANs of meter points, grid operators and capacity tariffs."""


def check_digit(body: str) -> str:
    """Return the check digit of `body` (ASCII digits), with weights 3, 1, 3, ... from the right."""
    codes = body.encode("ascii")
    threes, ones = codes[-1::-2], codes[-2::-2]
    # A digit's ASCII code is the digit plus 48.
    total = 3 * (sum(threes) - 48 * len(threes)) + sum(ones) - 48 * len(ones)
    return str(-total % 10)


def is_probably_rounded(number: str) -> bool:
    """Return whether `number` has lost its last digits, as EANs do in a spreadsheet that keeps 15 digits."""
    return len(number) >= 15 and number.endswith("000")


def is_gs1_number(number: str, length: int) -> bool:
    """Return whether `number` has exactly `length` digits, not only zeros, ending with the check digit."""
    return (
        len(number) == length
        and number.isascii()
        and number.isdigit()
        and number[-1] == check_digit(number[:-1])
        and not is_nothing(number)
    )


def is_nothing(number: str) -> bool:
    """Return whether `number` has only zeros: it stands for none, although its check digit is right."""
    return not number.strip("0")
