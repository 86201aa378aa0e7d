"""The limits of a body. They bound the work before anything loops over the body or formats it.

Each limit has its own error code. The limits are far above what an account needs.
"""

#: Levels of nested objects and lists (`too_deep`). An account payload has ten.
MAX_DEPTH = 32
#: Digits of a number (`number_too_long`). A whole number that no field reads may have 4,300.
MAX_NUMBER_DIGITS = 60
#: The largest exponent of a number, positive or negative (`number_too_long`).
MAX_EXPONENT = 100
#: Items of a list (`too_many_items`).
MAX_ITEMS = 10_000
#: Commas and opening brackets of a body or line, also within texts (`too_many_items`). Each may be a value of
#: 60 bytes in memory. An account of 8 MB has about 400,000.
MAX_VALUES = 1_000_000
#: Errors and warnings that a response lists. If there are more, another item says so (`too_many_errors`).
MAX_ERRORS = 1_000
#: Characters of a value that a message repeats.
MAX_SHOWN = 40
