"""Small changes of Python, SQL and Lua, each of which some test should notice."""
