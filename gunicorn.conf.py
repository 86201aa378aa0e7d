"""gunicorn's settings, for `migration-service up` and for containers alike.

Threads, because a process request waits for its worker: 2 x 128 are more than the 250 accounts that may be
processed at once, so that the next request is answered 429 instead of queueing for a thread, and status and
stage requests get through meanwhile.
"""

wsgi_app = "wsgi:app"
worker_class = "gthread"
workers = 2
threads = 128
# The heartbeat of a web worker process, not a limit for requests: those have a time limit of their own.
timeout = 60
# Longer than a process request waits for its outcome.
graceful_timeout = 40
keepalive = 5
# One line a request is logged by the service itself, with the request's id.
accesslog = None
# No second way in beside the signals.
control_socket_disable = True
