"""Suppliers that migrate accounts in the background of a test."""

import threading

from drill.clients import Journal, Order, Orders, Supplier
from drill.scene import Service
from support.servers import wait_until

_orders = Orders(seed=55)


class Load:
    """Some suppliers and their answers. Use it in a `with` statement."""

    def __init__(self, scene: Service, *, suppliers: int = 8) -> None:
        self.journal = Journal()
        self._enough = threading.Event()
        self._threads = [
            threading.Thread(
                target=Supplier(scene.address, self.journal).migrate_all,
                args=[_orders, self._enough],
                kwargs={"pause": 0.25},
            )
            for _ in range(suppliers)
        ]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        wait_until(self.journal.created, "the first account")
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join()

    def wrong(self, service: Service) -> list[str]:
        """Return the accounts that do not exist, or under another number than their client was told."""
        kept = dict(service.query("SELECT external_account_number, service_account_number FROM account"))
        created = self.journal.created()
        return [it.number for it in created if kept.get(it.number) != it.service_account_number]

    def next_order(self) -> Order:
        """Return an account for one more supplier."""
        return next(_orders)
