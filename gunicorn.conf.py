"""gunicorn's settings, for `migration-service up` and for containers alike.

Threads, because a process request waits for its worker. Each process has more of them than the 250
accounts that may be processed at once, as the system may hand most connections to one process: so the
next request is answered 429 instead of queueing for a thread, and status and stage requests get through
meanwhile. A thread is made when it is needed, and costs little.
"""

wsgi_app = "wsgi:app"
# gunicorn's threaded worker, which cuts off clients that send too slowly.
worker_class = "migration_service.web_worker.PacedWorker"
workers = 2
threads = 320
# More connections than threads: those that are kept alive between two requests need none.
worker_connections = 2000
# The heartbeat of a web worker process, not a limit for requests: those have a time limit of their own.
timeout = 60
# Longer than a process request waits for its outcome.
graceful_timeout = 40
keepalive = 5
# One line a request is logged by the service itself, with the request's id.
accesslog = None
# No second way in beside the signals.
control_socket_disable = True
