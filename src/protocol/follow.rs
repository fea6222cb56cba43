//! Messages between a tickerplant and one that follows it: `.u.follow.open`, `.u.follow.checksums` and `.u.follow.copy`, sync calls of the follower.

use super::parts::{long, put_id, read_id};
use super::read::{Fields, index_of, short};
use super::{Malformed, VERSION, names, tables};
use crate::log::{LogId, Sample};
use crate::net::message;
use crate::table::Schema;
use bytes::Bytes;
use proto::{EncodeError, MessageKind, View, Writer, types};

/// Positions in one call of `.u.follow.checksums`.
pub const MAX_SUMS: usize = 1024;
/// Blocks in one response.
pub const MAX_BLOCKS: usize = 256;

/// Files beside the log that a follower copies as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Journal of the queue.
    Queue,
    /// Tables of the log.
    Schema,
    /// Sequence numbers of publishers.
    Publishers,
}

impl Beside {
    pub const ALL: [Beside; 3] = [Beside::Queue, Beside::Schema, Beside::Publishers];

    const fn name(self) -> &'static str {
        match self {
            Beside::Queue => "queue",
            Beside::Schema => "schema",
            Beside::Publishers => "publishers",
        }
    }
}

/// Length and checksum of what a follower has of a file beside the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub bytes: u64,
    pub crc: u32,
}

/// A follower that has connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    pub src: Vec<u8>,
    /// Where it is reached; distinguishes followers.
    pub name: Vec<u8>,
    /// Name of its copy in the record of the lease; empty without a lease.
    pub copy: Vec<u8>,
}

impl Greeting {
    /// Encodes the call.
    ///
    /// # Errors
    /// A name that cannot be serialised.
    pub fn encode(&self) -> Result<Bytes, EncodeError> {
        message::message(MessageKind::Sync, |writer| {
            writer.list_head(2);
            writer.symbol(names::FOLLOW_OPEN);
            writer.dict_head();
            let keys = ["proto", "src", "node", "copy"];
            writer.symbols(keys);
            writer.list_head(keys.len());
            writer.atom_long(VERSION);
            writer.symbol(&self.src);
            writer.symbol(&self.name);
            writer.symbol(&self.copy);
        })
    }

    /// Decodes the call's arguments.
    ///
    /// # Errors
    /// `nyi` for another version; `type` for a value that is missing or of the wrong type; `limit` for a name that is too long.
    pub fn decode(args: &[View<'_>]) -> Result<Greeting, Malformed> {
        let fields = Fields::of(names::FOLLOW_OPEN, args.first())?;
        if fields.must("proto", |version| version.atom::<i64>())? != VERSION {
            let detail = format!("{}: only protocol {VERSION} is supported", names::FOLLOW_OPEN);
            return Err(Malformed { term: "nyi", detail });
        }
        let name = |key: &'static str| {
            let text = fields.text(key)?.ok_or_else(|| fields.wrong(key))?;
            short(key, text).map(<[u8]>::to_vec)
        };
        let copy = fields.text("copy")?.map(|text| short("copy", text)).transpose()?.unwrap_or_default().to_vec();
        Ok(Greeting { src: name("src")?, name: name("node")?, copy })
    }
}

/// Response to [`Greeting`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeted {
    /// Identity of the logs.
    pub id: LogId,
    pub epoch: u64,
    /// Updates that the log of `date` had when this epoch began; `None` if another process may have had the same epoch, without a lease.
    pub began: Option<u64>,
    pub date: i32,
    /// Days of which there are logs, in order.
    pub dates: Vec<i32>,
    pub tables: Vec<Schema>,
}

impl Greeted {
    /// Writes the object of the response.
    pub fn put(&self, writer: &mut Writer<'_>) {
        let keys = ["id", "epoch", "began", "date", "dates", "tables"];
        writer.dict_head();
        writer.symbols(keys);
        writer.list_head(keys.len());
        put_id(writer, Some(self.id));
        writer.atom_long(long(self.epoch));
        writer.atom_long(self.began.map_or(types::NULL_LONG, long));
        writer.atom_date(self.date);
        writer.vector(types::DATE, types::ATTR_NONE, &self.dates);
        tables::put_pairs(writer, self.tables.iter());
    }

    /// Decodes the response.
    ///
    /// # Errors
    /// A value that is missing or of the wrong type.
    pub fn decode(view: &View<'_>) -> Result<Greeted, Malformed> {
        let fields = Fields::of("the reply to .u.follow.open", Some(view))?;
        let dates = |view: View<'_>| view.vector().filter(|dates| dates.ty == types::DATE)?.to_vec::<i32>();
        Ok(Greeted {
            id: read_id(&fields, "id").ok_or_else(|| fields.wrong("id"))?,
            epoch: fields.must("epoch", index_of)?,
            began: fields.get("began").and_then(index_of),
            date: fields.must("date", |date| date.atom::<i32>())?,
            dates: fields.must("dates", dates)?,
            tables: tables::read_pairs(&fields.must("tables", Some)?)?,
        })
    }
}

/// Requests the checksums of the log's bytes before these offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums {
    pub date: i32,
    pub offsets: Vec<u64>,
}

impl Sums {
    /// Encodes the call.
    ///
    /// # Errors
    /// None in practice.
    pub fn encode(&self) -> Result<Bytes, EncodeError> {
        message::message(MessageKind::Sync, |writer| {
            writer.list_head(3);
            writer.symbol(names::FOLLOW_CHECKSUMS);
            writer.atom_date(self.date);
            let offsets: Vec<i64> = self.offsets.iter().copied().map(long).collect();
            writer.vector(types::LONG, types::ATTR_NONE, &offsets);
        })
    }

    /// Decodes the call's arguments.
    ///
    /// # Errors
    /// `type` for another form; `limit` for too many offsets, or offsets that decrease.
    pub fn decode(args: &[View<'_>]) -> Result<Sums, Malformed> {
        let wrong = || Malformed::of_type(format!("{} takes a date and a long vector", names::FOLLOW_CHECKSUMS));
        let date = args.first().and_then(View::atom::<i32>).ok_or_else(wrong)?;
        let offsets =
            args.get(1).and_then(View::vector).and_then(|offsets| offsets.to_vec::<i64>()).ok_or_else(wrong)?;
        let offsets = offsets.into_iter().map(|offset| u64::try_from(offset).ok()).collect::<Option<Vec<u64>>>();
        let offsets = offsets.ok_or_else(wrong)?;
        if offsets.len() > MAX_SUMS || !offsets.is_sorted() {
            let detail = format!("{} takes up to {MAX_SUMS} offsets that do not decrease", names::FOLLOW_CHECKSUMS);
            return Err(Malformed { term: "limit", detail });
        }
        Ok(Sums { date, offsets })
    }
}

/// Writes the checksums; null past the end of the log.
pub fn put_sums(writer: &mut Writer<'_>, sums: &[Option<u32>]) {
    let longs: Vec<i64> = sums.iter().map(|sum| sum.map_or(types::NULL_LONG, i64::from)).collect();
    writer.vector(types::LONG, types::ATTR_NONE, &longs);
}

/// Decodes the checksums.
///
/// # Errors
/// Another type.
pub fn read_sums(view: &View<'_>) -> Result<Vec<Option<u32>>, Malformed> {
    let longs = view.vector().and_then(|sums| sums.to_vec::<i64>());
    let longs = longs.ok_or_else(|| Malformed::of_type("the reply to .u.follow.checksums is not a long vector"))?;
    Ok(longs.into_iter().map(|sum| u32::try_from(sum).ok()).collect())
}

/// Requests the updates from an index on, and confirms those before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub date: i32,
    /// Index of the next update that the follower needs.
    pub next: u64,
    /// Updates before this index are on its disk.
    pub durable: u64,
    /// Length of its log.
    pub bytes: u64,
    /// The blocks before this offset agree with its log.
    pub proved: u64,
    /// What it has of each file beside the log, in the order of [`Beside::ALL`].
    pub held: [Held; 3],
    /// How long the tickerplant may wait for updates before it responds.
    pub wait_ms: u64,
}

impl Ask {
    /// Encodes the call.
    ///
    /// # Errors
    /// None in practice.
    pub fn encode(&self) -> Result<Bytes, EncodeError> {
        message::message(MessageKind::Sync, |writer| {
            writer.list_head(2);
            writer.symbol(names::FOLLOW_COPY);
            writer.dict_head();
            let keys = ["date", "next", "durable", "bytes", "proved", "held", "wait"];
            writer.symbols(keys);
            writer.list_head(keys.len());
            writer.atom_date(self.date);
            for number in [self.next, self.durable, self.bytes, self.proved] {
                writer.atom_long(long(number));
            }
            let held: Vec<i64> = self.held.iter().flat_map(|of| [long(of.bytes), i64::from(of.crc)]).collect();
            writer.vector(types::LONG, types::ATTR_NONE, &held);
            writer.atom_long(long(self.wait_ms));
        })
    }

    /// Decodes the call's arguments.
    ///
    /// # Errors
    /// `type` for a value that is missing or of the wrong type.
    pub fn decode(args: &[View<'_>]) -> Result<Ask, Malformed> {
        let fields = Fields::of(names::FOLLOW_COPY, args.first())?;
        let held = |view: View<'_>| {
            let longs = view.vector()?.to_vec::<i64>()?;
            let (pairs, []) = longs.as_chunks::<2>() else { return None };
            let held = |[bytes, crc]: &[i64; 2]| {
                Some(Held { bytes: u64::try_from(*bytes).ok()?, crc: u32::try_from(*crc).ok()? })
            };
            let held = pairs.iter().map(held).collect::<Option<Vec<Held>>>()?;
            <[Held; 3]>::try_from(held).ok()
        };
        Ok(Ask {
            date: fields.must("date", |date| date.atom::<i32>())?,
            next: fields.must("next", index_of)?,
            durable: fields.must("durable", index_of)?,
            bytes: fields.must("bytes", index_of)?,
            proved: fields.must("proved", index_of)?,
            held: fields.must("held", held)?,
            wait_ms: fields.must("wait", index_of)?,
        })
    }
}

/// Part of a file beside the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub file: Beside,
    /// Where the bytes belong; what the follower has behind them is no longer in the file.
    pub from: u64,
    pub bytes: Vec<u8>,
}

/// Response to [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub epoch: u64,
    /// Updates in the log of that day.
    pub tip: u64,
    /// Number of records in `data`, from the requested one on.
    pub records: u64,
    pub data: Vec<u8>,
    /// Blocks of the part of the log that the follower has.
    pub blocks: Vec<Sample>,
    pub pieces: Vec<Piece>,
    /// The next day, if that day has ended and the follower has all of it.
    pub then: Option<i32>,
}

impl Told {
    /// Encodes the response.
    ///
    /// # Errors
    /// A message too long for its header.
    pub fn encode(&self) -> Result<Bytes, EncodeError> {
        message::message(MessageKind::Response, |writer| {
            let keys = ["epoch", "tip", "records", "data", "blocks", "files", "from", "bytes", "then"];
            writer.dict_head();
            writer.symbols(keys);
            writer.list_head(keys.len());
            for number in [self.epoch, self.tip, self.records] {
                writer.atom_long(long(number));
            }
            writer.vector(types::BYTE, types::ATTR_NONE, &self.data);
            let words = |of: &Sample| [long(of.offset_bytes), long(of.length_bytes), i64::from(of.crc)];
            writer.vector(types::LONG, types::ATTR_NONE, &self.blocks.iter().flat_map(words).collect::<Vec<_>>());
            writer.symbols(self.pieces.iter().map(|piece| piece.file.name()).collect::<Vec<_>>());
            let from: Vec<i64> = self.pieces.iter().map(|piece| long(piece.from)).collect();
            writer.vector(types::LONG, types::ATTR_NONE, &from);
            writer.list_head(self.pieces.len());
            self.pieces.iter().for_each(|piece| writer.vector(types::BYTE, types::ATTR_NONE, &piece.bytes));
            writer.atom_date(self.then.unwrap_or(types::NULL_INT));
        })
    }

    /// Decodes the response.
    ///
    /// # Errors
    /// A value that is missing or of the wrong type.
    pub fn decode(view: &View<'_>) -> Result<Told, Malformed> {
        let fields = Fields::of("the reply to .u.follow.copy", Some(view))?;
        Ok(Told {
            epoch: fields.must("epoch", index_of)?,
            tip: fields.must("tip", index_of)?,
            records: fields.must("records", index_of)?,
            data: fields.must("data", |data| bytes(&data))?,
            blocks: fields.must("blocks", blocks)?,
            pieces: pieces(&fields)?,
            then: fields.atom::<i32>("then")?.filter(|date| *date != types::NULL_INT),
        })
    }
}

fn bytes(view: &View<'_>) -> Option<Vec<u8>> {
    view.vector().filter(|bytes| bytes.ty == types::BYTE)?.to_vec::<u8>()
}

fn blocks(view: View<'_>) -> Option<Vec<Sample>> {
    let words = view.vector()?.to_vec::<i64>()?;
    let (blocks, []) = words.as_chunks::<3>() else { return None };
    let block = |[offset, length, crc]: &[i64; 3]| {
        let (offset_bytes, length_bytes) = (u64::try_from(*offset).ok()?, u64::try_from(*length).ok()?);
        Some(Sample { offset_bytes, length_bytes, crc: u32::try_from(*crc).ok()? })
    };
    blocks.iter().map(block).collect()
}

fn pieces(fields: &Fields<'_>) -> Result<Vec<Piece>, Malformed> {
    let names = fields.must("files", |names| super::read::symbols(&names))?;
    let from = fields.must("from", |from| from.vector()?.to_vec::<i64>())?;
    let contents =
        fields.must("bytes", |list| list.list()?.iter().map(|item| bytes(&item)).collect::<Option<Vec<_>>>())?;
    let piece = |((name, from), bytes): ((Vec<u8>, i64), Vec<u8>)| {
        let file = Beside::ALL.into_iter().find(|file| file.name().as_bytes() == name)?;
        Some(Piece { file, from: u64::try_from(from).ok()?, bytes })
    };
    let pieces = names.into_iter().zip(from).zip(contents).map(piece).collect::<Option<Vec<Piece>>>();
    pieces.ok_or_else(|| fields.wrong("files"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::{Endian, HEADER_BYTES, Limits};

    fn object(message: &Bytes) -> View<'_> {
        View::parse(&message[HEADER_BYTES..], Endian::Little, &Limits::default()).expect("an object").0
    }

    fn arguments(message: &Bytes) -> Vec<View<'_>> {
        object(message).list().expect("a call").iter().skip(1).collect()
    }

    #[test]
    fn calls_are_read_as_they_are_written() {
        let greeting = Greeting { src: b"sym".to_vec(), name: b"host:5010".to_vec(), copy: b"host:5010/1f".to_vec() };
        let message = greeting.encode().expect("short");
        assert_eq!(Greeting::decode(&arguments(&message)), Ok(greeting));

        let sums = Sums { date: 9_000, offsets: vec![8, 8, 1 << 40] };
        assert_eq!(Sums::decode(&arguments(&sums.encode().expect("short"))), Ok(sums));
        for offsets in [vec![9, 8], vec![0; MAX_SUMS + 1]] {
            let message = Sums { date: 1, offsets }.encode().expect("short");
            assert_eq!(Sums::decode(&arguments(&message)).map_err(|error| error.term), Err("limit"));
        }

        let held = [Held { bytes: 3, crc: u32::MAX }, Held::default(), Held { bytes: 0, crc: 1 }];
        let ask = Ask { date: 1, next: 2, durable: 3, bytes: 4, proved: 5, held, wait_ms: 6 };
        assert_eq!(Ask::decode(&arguments(&ask.encode().expect("short"))), Ok(ask));
    }

    #[test]
    fn responses_are_read_as_they_are_written() {
        let blocks = vec![Sample { offset_bytes: 8, length_bytes: 5, crc: u32::MAX }];
        let pieces = vec![
            Piece { file: Beside::Queue, from: 7, bytes: vec![1, 2] },
            Piece { file: Beside::Publishers, from: 0, bytes: vec![] },
        ];
        let told = Told { epoch: 1, tip: 2, records: 3, data: vec![9, 8], blocks, pieces, then: Some(5) };
        assert_eq!(Told::decode(&object(&told.encode().expect("short"))), Ok(told.clone()));
        let none = Told { data: vec![], blocks: vec![], pieces: vec![], then: None, ..told };
        assert_eq!(Told::decode(&object(&none.encode().expect("short"))), Ok(none));

        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        put_sums(&mut writer, &[Some(u32::MAX), None]);
        writer.finish().expect("short");
        let (view, _) = View::parse(&bytes, Endian::Little, &Limits::default()).expect("an object");
        assert_eq!(read_sums(&view), Ok(vec![Some(u32::MAX), None]));
    }
}
