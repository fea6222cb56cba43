"""A publisher that runs in the background of a test."""

import threading


class Feeder(threading.Thread):
    """Publishes until it is stopped, across restarts of the tickerplant. `allow` limits its rate."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster = cluster
        self.allowed = threading.Semaphore(0)
        self.stopped = False
        self.failure = None

    def allow(self, updates):
        for _ in range(updates):
            self.allowed.release()

    def allow_one(self):
        self.allow(1)

    def run(self):
        try:
            while True:
                self.allowed.acquire()
                if self.stopped:
                    return
                self.cluster.publish()
        except AssertionError as failure:
            self.failure = failure

    def stop(self):
        self.stopped = True
        self.allowed.release()
        self.join(60)
        if self.failure:
            raise self.failure
