"""`elastick lease show` and `release` on a lease in a DynamoDB table."""

import json
import subprocess

from .cloud.lease_behaviours import Operated
from .cloud.lease_scene import LeaseScene
from .cloud.scene import binary


class Tool(Operated, LeaseScene):
    def shown(self):
        done = self.lease("show", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_a_lease_that_nobody_has_taken(self):
        done = self.lease("show")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("nobody has taken this lease yet", done.stderr)

    def test_the_owner_and_its_renewals(self):
        process, port = self.plant("one")
        self.active(process, port)
        shown = self.shown()
        self.assertEqual(shown["owner"], self.item()["ownerName"]["S"])
        self.assertEqual((shown["epoch"], shown["is_released"], shown["successor"]), (1, False, None))
        self.assertIsNotNone(shown["renewed_after_s"])
        self.assertRegex(self.lease("show").stdout, r"state +held: changed")
        process.terminate()
        self.assertTrue(self.shown()["is_released"])
        self.assertRegex(self.lease("show").stdout, r"state +released: the next contender takes it")

    def test_an_owner_that_is_well_keeps_its_lease(self):
        process, port = self.plant("one")
        self.active(process, port)
        owner = self.item()["ownerName"]["S"]
        done = self.lease("release", "--owner", owner)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "is not gone, the lease changed after")
        done = self.lease("release", "--owner", "another")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"its owner is {owner}", done.stderr)
        self.assertEqual(self.role(port), "active")

    def test_the_lease_of_one_that_is_gone_is_given_back(self):
        process, port = self.plant("one")
        self.publish(self.active(process, port))
        process.kill()
        owner = self.shown()["owner"]
        done = self.lease("release", "--owner", owner)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.shown()["is_released"], True)
        done = self.lease("release", "--owner", owner, "--now")
        self.assertIn("it is released already", done.stderr)
        process, port = self.plant("two")
        self.publish(self.active(process, port))
        self.assertEqual((self.item()["fence"]["N"], self.logged()), ("2", list(range(40))))

    def test_the_lock_of_a_log_is_no_lease_in_a_store(self):
        done = subprocess.run([str(binary()), "lease", "show", "file:"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("the lease is the lock of the log", done.stderr)


class ToolOnTheApiServer(Tool):
    """The same on the other stand-in."""

    kind = "moto"
