"""The codes of values that have the wrong form, in payloads, other bodies and parameters."""

#: The codes of a value that has the wrong form: meaning and remedy.
FIELD_CODES = {
    "required": ("A required field is missing.", "Add it."),
    "null": ("A field is null.", "Leave out optional fields that have no value."),
    "blank": ("A text is empty, but may not be.", "Give it a value, or leave the field out."),
    "invalid": ("A value has the wrong type, for example a number instead of a text.", "Read the detail."),
    "invalid_choice": ("A value is not one of the allowed words.", "Use one of the words in the detail."),
    "invalid_characters": (
        "A text has U+0000 or other control characters, or an identifier has a letter that is lost (U+FFFD) "
        "or was read as several.",
        "Remove them, and read the file in its own encoding.",
    ),
    "max_length": ("A text is too long.", "Shorten it to the length in the detail."),
    "not_a_list": ("A value is not a list.", "Send a list, even for one element."),
    "not_a_dict": ("A value is not an object.", "Send an object."),
    "empty": ("A list has no elements.", "Give at least one."),
    "out_of_range": (
        "A number is too large, or has too many digits.",
        "Send a number that the detail allows.",
    ),
    "page_size_out_of_range": (
        "The requested page of a list would have too many entries, or none.",
        "Request as many as the detail allows, and follow the `Link` header.",
    ),
    "idempotency_key_invalid": (
        "The `Idempotency-Key` is empty, too long, or contains unprintable characters.",
        "Send a key of 1 to 128 printable characters.",
    ),
    "invalid_date": ("A value is not a calendar date in the form YYYY-MM-DD.", "Correct it."),
    "invalid_datetime": ("A value is not a date and time in the form that the detail shows.", "Correct it."),
    "invalid_phone_number": (
        "A value is not a valid telephone number, either Dutch or of the country of its prefix.",
        "Correct it, or send an empty text.",
    ),
    "invalid_email_address": (
        "A value does not have the form of an e-mail address.",
        "Correct it, or leave it out.",
    ),
    "invalid_ean": ("An EAN has characters other than digits, or more than 18 digits.", "Correct it."),
    "invalid_document_path": (
        "A path is not a plain relative path below the document root.",
        "Send a relative path.",
    ),
    "note_body_or_document_path_not_found": (
        "A note has neither a body nor document_paths.",
        "Add one of them.",
    ),
    "unknown_field": (
        "The interface does not have this field. Within an account, and within the items of the other "
        "bodies, this is a warning under the lenient profile, and an error under the strict one. At the "
        "top level of the other bodies it is an error.",
        "Correct the name, or leave the field out.",
    ),
    "outer_spaces": ("An identifier starts or ends with a space.", "Remove it."),
    "not_normalised": ("An identifier is not in Unicode's normal form C.", "Send composed characters."),
    "compatibility_characters": (
        "An identifier has a compatibility form, a digit of another script, or a dash that looks like a "
        "hyphen.",
        "Send the plain character that the detail names.",
    ),
    "invisible_characters": ("An identifier has an invisible character.", "Remove it."),
    "bidirectional_characters": (
        "An identifier has a character that changes the direction of text.",
        "Remove it.",
    ),
    "too_deep": (
        "The body nests objects and lists too deeply.",
        "Send fewer levels. The detail has the limit.",
    ),
    "number_too_long": (
        "A number has too many digits, or too large an exponent.",
        "Send a number within the limits of the detail.",
    ),
    "document_too_long": (
        "A GraphQL document has too many tokens or comments.",
        "Send only the mutation that obtains tokens.",
    ),
    "too_many_items": ("A list has too many items.", "Send fewer, or use several requests."),
    "too_many_errors": (
        "There are more errors or warnings than a response lists.",
        "Correct what is listed, and send the body again.",
    ),
}
