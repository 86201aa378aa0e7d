"""The Account Migration Import Service. Imports nothing, so that any part can be imported alone."""
