"""Forwards packets between two network devices, late and not all: `failover.slow ONE OTHER MS LOSS`.

It stands in for `tc qdisc add ... netem delay ... loss ...`, which many kernels are built without.
"""

import random
import select
import socket
import sys
import time
from collections import deque

#: Of <linux/if_packet.h> and <linux/if_ether.h>: a packet that this host sent; every protocol.
_OUTGOING, _ALL = 4, 3


def main(one: str, other: str, delay: float, loss: float) -> None:
    """Forward until the end. `delay` is in seconds, and `loss` is the share of packets to lose."""
    ends = []
    for device in (one, other):
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
        end.bind((device, 0))
        ends.append(end)
    there = {ends[0]: ends[1], ends[1]: ends[0]}
    waiting: deque[tuple[float, socket.socket, bytes]] = deque()
    while True:
        pause = max(waiting[0][0] - time.monotonic(), 0) if waiting else None
        for end in select.select(ends, [], [], pause)[0]:
            packet, (_, _, kind, *_) = end.recvfrom(65_536)
            if kind != _OUTGOING and random.random() >= loss:
                waiting.append((time.monotonic() + delay, there[end], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, end, packet = waiting.popleft()
            end.send(packet)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]) / 1000, float(sys.argv[4]))
