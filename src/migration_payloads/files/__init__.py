"""Files of account payloads: one JSON object on each line."""
