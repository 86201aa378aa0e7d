"""The names of queues and tasks, and the intervals of periodic tasks in seconds.

They are separate from the tasks, because beat and Flower only need the names. Without importing the tasks,
they start in half the time.
"""

#: The queues for requests, batches, batches that ask payment vendors, webhooks and e-mail, and maintenance.
QUEUES = ("interactive", "batch", "vendors", "deliveries", "maintenance")
#: The prefix of the keys of the queues in Redis.
KEY_PREFIX = "migration:"

CREATE_SET = "accounts.create_set"
RUN_CHUNK = "batches.run_chunk"
RUN_VENDOR_CHUNK = "batches.run_vendor_chunk"
REVERT_ACCOUNTS = "undos.revert_accounts"
SEND_DELIVERIES = "deliveries.send"
COMPARE = "comparisons.compare"
MARK_LIVE = "go_lives.mark_live"
CERTIFY = "certificates.certify"

SWEEP = "maintenance.sweep"
#: Seconds between two sweeps.
SWEEP_INTERVAL = 5.0
COUNT_ACCOUNTS = "maintenance.count_accounts"
#: Seconds between two counts.
COUNT_INTERVAL = 30.0
WATCH_EVENTS = "maintenance.watch_events"
#: Seconds between two notes of how far the numbers of transactions have come.
WATCH_INTERVAL = 30.0
REMOVE_OLD_DATA = "maintenance.remove_old_data"
#: Seconds between two runs of `remove_old_data`.
REMOVAL_INTERVAL = 600.0
