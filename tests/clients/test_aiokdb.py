"""aiokdb as publisher, subscriber and query client."""

import asyncio

from aiokdb import KException, TypeEnum, cv, kf, kj, kk, ks
from aiokdb.client import ClientContext, open_qipc_connection
from aiokdb.extras import ktnf, ktni, ktns

from harness.scene import Scene


def columns(first, count):
    """Typed vectors, without time."""
    seq = range(first, first + count)
    return kk(
        ktns(*(("AIA", "AIB")[i % 2] for i in seq)),
        ktnf(TypeEnum.KF, *(i * 0.25 for i in seq)),
        ktni(TypeEnum.KJ, *(i % 5 for i in seq)),
        ktni(TypeEnum.KJ, *seq),
    )


def rows_of(symbols, prices, sizes, seqs):
    return list(zip(symbols.kS(), prices.kF(), sizes.kJ(), seqs.kJ()))


class Subscriber(ClientContext):
    """Collects pushed messages."""

    def __init__(self):
        self.rows = []
        self.changed = asyncio.Event()

    async def on_async_message(self, cmd, dotzw):
        name, table, data = cmd.kK()
        assert (name.aS(), table.aS()) == ("upd", "trade"), cmd
        self.rows += rows_of(data["sym"], data["price"], data["size"], data["seq"])
        self.changed.set()

    async def take(self, count):
        while len(self.rows) < count:
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), 30)
        return self.rows


async def publisher(port):
    _, writer = await open_qipc_connection(port=port, user="aio", password="pw")
    return writer


class AiokdbPublishes(Scene):
    def setUp(self):
        super().setUp()
        self.port = self.tick().port

    def play(self, publish, count):
        """Subscribes, runs `publish` on another connection, and returns the pushed rows."""

        async def run():
            context = Subscriber()
            _, subscriber = await open_qipc_connection(port=self.port, user="aio", password="pw", context=context)
            name, schema = (await subscriber.sync_req(kk(ks(".u.sub"), ks("trade"), ks("")))).kK()
            self.assertEqual((name.aS(), list(schema.kS())), ("trade", ["time", "sym", "price", "size", "seq"]))
            writer = await publisher(self.port)
            await publish(writer)
            rows = await context.take(count)
            writer.close()
            subscriber.close()
            return rows

        return asyncio.run(run())

    def test_typed_vectors_under_a_symbol_name_come_back(self):
        sent = columns(0, 500)

        async def publish(writer):
            await writer.sync_req(kk(ks(".u.upd"), ks("trade"), sent))

        self.assertEqual(self.play(publish, 500), rows_of(*sent.kK()))

    def test_async_updates_and_a_string_name_come_back_in_order(self):
        async def publish(writer):
            for i in range(0, 100, 10):
                await writer.async_msg(kk(cv(".u.upd"), ks("trade"), columns(i, 10)))

        self.assertEqual(self.play(publish, 100), rows_of(*columns(0, 100).kK()))

    def test_single_rows_of_atoms_come_back(self):
        async def publish(writer):
            for i in range(5):
                await writer.sync_req(kk(ks(".u.upd"), ks("trade"), kk(ks("AIA"), kf(i * 0.25), kj(i), kj(i))))

        self.assertEqual(self.play(publish, 5), [("AIA", i * 0.25, i, i) for i in range(5)])

    def test_a_wrong_update_is_refused_by_name_and_the_connection_goes_on(self):
        async def run():
            writer = await publisher(self.port)
            with self.assertRaises(KException) as refused:
                await writer.sync_req(kk(ks(".u.upd"), ks("trade"), kk(*columns(0, 2).kK()[:3])))
            self.assertRegex(str(refused.exception), "^length")
            self.assertEqual((await writer.sync_req(cv(".u.i"))).aJ(), 0)
            writer.close()

        asyncio.run(run())
