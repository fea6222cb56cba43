"""`elastick gc` with leases in Swift, as Karbor keeps them, and in a DynamoDB table."""

import itertools
import os
import unittest

from harness.owners import OwnersCluster, OwnersTests
from harness.process import reserve_port

from .cloud import leases, swift
from .cloud.lease_scene import KEYS
from .cloud.scene import binary

_numbers = itertools.count(1)


class OwnersInSwift(swift.Account, OwnersTests, OwnersCluster):
    """Without logins."""

    def setUp(self):
        self.make_container()
        super().setUp()

    def url(self, container, port=None):
        place = f"127.0.0.1:{port or self.server.port}/{container}"
        return f"swift://{place}?{self.access()}&tls=off&expire=4s&renew=500ms"

    def store(self):
        return self.url(self.container)

    def empty_store(self):
        container = f"empty{next(_numbers)}"
        self.server.request("PUT", f"{self.account}/{container}", **self.fields)
        return self.url(container)

    def store_that_is_away(self):
        return self.url(self.container, port=reserve_port())

    def exists(self, owner):
        status, fields = self.server.request("HEAD", self.path(owner), **self.fields)
        if status == 200:
            self.assertIsNotNone(fields["X-Delete-At"], "a lease always has an end")
        return status == 200

    def test_renewals_keep_the_end_of_the_lease_and_the_expirer_removes_it_after_a_kill(self):
        node = self.start_node()
        node.wait_for("the owner's lease is held")
        self.joined(1)
        owner = self.owners()["owner"][0]
        end = lambda: self.server.request("HEAD", self.path(owner), **self.fields)[1]["X-Delete-At"]
        first = end()
        self.eventually(lambda: end() != first, "a renewal moves the end")
        self.assertTrue(self.exists(owner))
        node.kill()
        self.eventually(lambda: not self.exists(owner), "the lease ends without its owner")

    def test_a_container_that_is_absent_says_nothing_about_owners(self):
        self.scene()
        node = self.node_in("rolled")
        node.pause()
        self.silent(node)
        found, done = self.found(store=self.url("nowhere"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no such container", found[node.name][0])
        node.resume()
        self.assert_held_once("nothing was evicted")

    def test_a_lease_that_another_program_has_made_immortal_is_reported(self):
        self.scene()
        node = self.node_in("rolled")
        owners = self.owners()
        owner = dict(zip(owners["node"], owners["owner"]))[node.name]
        node.pause()
        # A renewal that was under way would give the lease its end back.
        self.silent(node, least_s=1)
        self.assertEqual(self.server.request("POST", self.path(owner), X_Object_Meta_By="hand", **self.fields)[0], 202)
        self.silent(node)
        found, done = self.found()
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no end", found[node.name][0])
        node.resume()


class OwnersInSwiftWithLogins(swift.AccountWithLogin, OwnersInSwift):
    """With tempauth's tokens."""

    def test_tokens_that_the_server_has_forgotten_are_replaced(self):
        node = self.start_node()
        node.wait_for("the owner's lease is held")
        self.joined(1)
        owner = self.owners()["owner"][0]
        end = lambda: self.server.request("HEAD", self.path(owner), **self.login()[0])[1]["X-Delete-At"]
        self.server.tokens.held.clear()
        first = end()
        self.eventually(lambda: end() != first, "the node has another token, and renews")

    def test_a_wrong_key_is_named(self):
        store = self.store().replace("key-testing", "key-wrong")
        self.key_file("wrong")
        node = self.rdb(self.port, *self.node_options, "--owner-lease", store, name="stranger")
        node.wait_for("rejects the login of test:tester: the user or its key is wrong")


class OwnersInATable(OwnersTests, OwnersCluster):
    """Items by the rules of the Java Lock Client."""

    environment = variables = KEYS

    @classmethod
    def setUpClass(cls):
        reason = leases.missing("dynalite")
        if reason:
            raise unittest.SkipTest(f"no stand-in for DynamoDB: {reason}")
        cls.executable = binary()
        super().setUpClass()

    def setUp(self):
        self.db_server = leases.store("dynalite")
        self.db_server.heal()
        self.db = self.db_server.client("dynamodb")
        self.table = self.new_table()
        super().setUp()

    def new_table(self):
        table = f"owners-{os.getpid()}-{next(_numbers)}"
        leases.create(self.db, table)
        return table

    def executable_of_gc(self):
        return binary()

    def url(self, table, endpoint=None):
        place = f"region=us-east-1&endpoint={endpoint or self.db_server.url}"
        return f"dynamodb://{table}/owners?{place}&expire=3s&renew=500ms"

    def store(self):
        return self.url(self.table)

    def empty_store(self):
        return self.url(self.new_table())

    def store_that_is_away(self):
        return self.url(self.table, endpoint=f"http://127.0.0.1:{reserve_port()}")

    def exists(self, owner):
        item = self.db.get_item(TableName=self.table, Key={"key": {"S": f"owners/{owner}"}}, ConsistentRead=True).get("Item")
        return item is not None and item.get("isReleased", {}).get("S") != "1"
