"""The limits of a body, which bound the work for it before anything loops over it or formats it.

Each limit has an error code of its own. The limits are far above what an account needs.
"""

#: Levels of nested objects and lists (`too_deep`). An account payload has ten.
MAX_DEPTH = 32
#: Digits of a number (`number_too_long`). A whole number that no field reads may have 4,300.
MAX_NUMBER_DIGITS = 60
#: The largest exponent of a number, and the smallest below zero (`number_too_long`).
MAX_EXPONENT = 100
#: Items of a list (`too_many_items`).
MAX_ITEMS = 10_000
#: Errors and warnings that a response lists. One more item says that there are more (`too_many_errors`).
MAX_ERRORS = 1_000
#: Characters of a found value that a message repeats.
MAX_SHOWN = 40
