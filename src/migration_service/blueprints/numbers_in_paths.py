"""External account numbers in paths."""

from werkzeug.routing import PathConverter


class NumberConverter(PathConverter):
    """An external account number in a path: any text, slashes and line feeds included."""

    regex = r"[\s\S]+?"
    part_isolating = False
