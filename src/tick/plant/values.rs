//! The variables of `.u`, as objects.

use super::Plant;
use super::conns;
use super::reader::Reader;
use crate::net::Links;
use crate::protocol::long;
use crate::q::from_view;
use crate::queue::{Row, Verified};
use crate::table::{Items, Table, Value, symbol};
use crate::tick::quarantine::Refused;
use crate::tick::subscriptions::RequestedSymbols;
use proto::{Endian, Limits, View, Writer, types};
use std::sync::Arc;

/// Names of the variables.
pub const VARIABLES: [&str; 14] = [
    ".u.t",
    ".u.w",
    ".u.conns",
    ".u.i",
    ".u.j",
    ".u.L",
    ".u.l",
    ".u.d",
    ".u.stats",
    ".u.refused",
    ".u.quarantine",
    ".u.rejected",
    ".u.asg.tab",
    ".u.asg.tabV1",
];

/// What each of [`VARIABLES`] holds: `\help NAME`.
pub const HOLDS: [&str; VARIABLES.len()] = [
    "names of the tables",
    "subscribers: dictionary from each table to its (handle;symbols)",
    "connections that have logged in: user, address, kind, rows and bytes that wait, lag, since when slow",
    "records in the log, as -11! counts them: updates and the numbers of publishers",
    "as .u.i; in batch mode also what is not published yet",
    "file of the log",
    "handle of the log",
    "date of the day",
    "statistics of the tickerplant",
    "number of rejected updates",
    "as .u.rejected, with the columns and names of the first version",
    "rejected updates, the newest last: id, time, table, user, publisher and number, reason, data",
    "the queue: nodes, memory, windows, and whether each window was verified against the log",
    "as .u.asg.tab, with the names of the first version",
];

/// Variables that [`Plant::put_named`] writes.
const NAMED: [&[u8]; 8] = [b".u.t", b".u.i", b".u.j", b".u.L", b".u.l", b".u.d", b".u.stats", b".u.refused"];

/// The tables of rejected updates, which no message of [`Plant::put_named`] gets.
pub const REJECTED: [&[u8]; 2] = [b".u.rejected", b".u.quarantine"];

/// Columns of `.u.quarantine`, which keeps those of before for programs that read them.
const QUARANTINE_COLUMNS: [&str; 8] = ["time", "handle", "feed", "tab", "error", "reason", "bytes", "message"];

/// Names of the columns of `.u.asg.tabV1`, which keeps those of the first version for programs that read them. `next` is a word
/// of q: only ``t`next`` reads it.
fn columns_v1() -> Vec<&'static str> {
    crate::queue::COLUMNS.iter().map(|name| if *name == "nextI" { "next" } else { *name }).collect()
}

impl Plant {
    /// Writes the variable with this full name, as far as the reader sees it; false if there is none.
    pub fn put_variable(
        &self,
        name: &[u8],
        reader: Option<Reader<'_>>,
        ctl: &dyn Links,
        writer: &mut Writer<'_>,
    ) -> bool {
        match name {
            b".u.t" => writer.symbols(self.sorted_names()),
            b".u.w" => self.put_subscriptions(reader, writer),
            b".u.conns" => conns::put(&self.connections(reader, ctl), writer),
            b".u.i" | b".u.j" | b".u.L" if !self.log.exists() => return false,
            b".u.i" if self.merging.is_on() => writer.atom_long(long(self.feed.merged_tip())),
            b".u.i" | b".u.j" => writer.atom_long(long(self.feed.tip().index)),
            b".u.L" => writer.symbol(self.log_handle()),
            b".u.l" => writer.atom_int(if self.log.exists() { 3 } else { 0 }),
            b".u.d" => writer.atom_date(self.time.date().0),
            b".u.stats" => self.put_stats(writer),
            b".u.refused" => writer.atom_long(long(self.stats.refused)),
            b".u.asg.tab" => put_rows(&crate::queue::COLUMNS, &self.nodes(reader), writer),
            b".u.asg.tabV1" => put_rows(&columns_v1(), &self.nodes(reader), writer),
            _ => return false,
        }
        true
    }

    /// Writes the value of a text that only names a variable, or the position and name of the log, `` .u `i`L ``; false for any other
    /// text. Feeds and monitors send such texts often, and a query thread would have nothing to evaluate.
    pub fn put_named(&self, text: &[u8], ctl: &dyn Links, writer: &mut Writer<'_>) -> bool {
        let text = text.trim_ascii();
        if NAMED.contains(&text) {
            return self.put_variable(text, None, ctl, writer);
        }
        let names = text.strip_prefix(b".u").map(<[u8]>::trim_ascii_start).and_then(|names| names.strip_prefix(b"`"));
        let Some(names) = names.filter(|_| self.log.exists()) else { return false };
        let mut names = names.split(|byte| *byte == b'`').map(|name| [b".u.", name].concat());
        match (names.next().as_deref(), names.next().as_deref(), names.next().as_deref(), names.next()) {
            (Some(first @ (b".u.i" | b".u.j")), Some(b".u.L"), None, None) => {
                writer.list_head(2);
                self.put_variable(first, None, ctl, writer) && self.put_variable(b".u.L", None, ctl, writer)
            }
            (Some(b".u.i"), Some(b".u.j"), Some(b".u.L"), None) => {
                writer.list_head(3);
                [&b".u.i"[..], b".u.j", b".u.L"].into_iter().all(|name| self.put_variable(name, None, ctl, writer))
            }
            _ => false,
        }
    }

    fn sorted_names(&self) -> Vec<&[u8]> {
        self.schemas
            .sorted()
            .iter()
            .filter_map(|table| self.tables().get(*table))
            .map(|spec| spec.name.as_slice())
            .collect()
    }

    /// Writes `.u.w`: table name -> list of (handle; symbols).
    fn put_subscriptions(&self, reader: Option<Reader<'_>>, writer: &mut Writer<'_>) {
        writer.dict_head();
        writer.symbols(self.sorted_names());
        writer.list_head(self.schemas.sorted().len());
        for table in self.schemas.sorted() {
            let entries = self.subscriptions.of(*table).iter();
            let seen = |conn| reader.is_none_or(|reader| reader.sees_connection(conn));
            let entries: Vec<_> = entries.filter(|(conn, _)| seen(*conn)).collect();
            writer.list_head(entries.len());
            for (conn, requested) in entries {
                writer.list_head(2);
                writer.atom_int(conn.handle());
                match requested {
                    RequestedSymbols::All => writer.symbol(""),
                    RequestedSymbols::List(list) => writer.symbols(list),
                }
            }
        }
    }

    /// Returns the rows of `.u.asg.tab` that the reader sees.
    fn nodes(&self, reader: Option<Reader<'_>>) -> Vec<Row> {
        let mut rows = self.queue.core().rows();
        rows.retain(|row| reader.is_none_or(|reader| reader.sees_node(row)));
        rows
    }

    fn put_stats(&self, writer: &mut Writer<'_>) {
        let log = self.log.writer();
        let own = [
            ("tip", self.feed.tip().index),
            ("durable", log.map_or(0, crate::log::LogWriter::durable_tip)),
            ("logBytes", log.map_or(0, crate::log::LogWriter::written_bytes)),
            ("lanes", self.feed.lanes() as u64),
            ("behind", self.feed.behind() as u64),
            ("demotions", self.feed.demotions().all()),
            ("failed", u64::from(self.log.has_failed())),
        ];
        let all: Vec<(&str, u64)> = self.stats.entries().into_iter().chain(own).collect();
        writer.dict_head();
        writer.symbols(all.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        let values: Vec<i64> = all.iter().map(|(_, value)| long(*value)).collect();
        writer.vector(types::LONG, types::ATTR_NONE, &values);
    }
}

/// Columns of `.u.rejected` before `data`.
const REJECTED_COLUMNS: [&str; 11] =
    ["id", "time", "tab", "user", "address", "handle", "publisher", "seq", "error", "reason", "bytes"];

/// Returns `.u.rejected`. Its data are values where they are plain data and were kept whole, else bytes: what a publisher sends must not
/// become a function that a reader of the table calls.
pub(super) fn rejected(all: &[Arc<Refused>]) -> Option<Value> {
    let mut object = Vec::new();
    let mut writer = Writer::new(&mut object);
    put_rejected(all, &mut writer);
    writer.finish().ok()?;
    let (view, _) = View::parse(&object, Endian::Little, &Limits::default()).ok()?;
    let Value::Table(table) = from_view(&view).ok()? else { return None };
    let (mut names, mut columns) = (table.names.clone(), table.columns.clone());
    names.push(symbol::intern_name(b"data").ok()?);
    columns.push(Value::list(all.iter().map(|refused| data(refused)).collect()).into_vector()?);
    Some(Value::table(Table::new(names, columns)))
}

fn data(refused: &Refused) -> Value {
    let parsed = View::parse(&refused.message, Endian::Little, &Limits::default()).ok();
    let whole = parsed.filter(|(view, used)| refused.is_whole() && *used == refused.message.len() && is_plain(view));
    // Values that do not fit, such as symbols beyond the query's limit, are shown as bytes as well.
    let value = whole.and_then(|(view, _)| from_view(&view).ok());
    value.unwrap_or_else(|| Items::Byte(refused.message.clone().into()).into())
}

/// Whether an object has no function in it. Its depth was limited when it was parsed.
fn is_plain(view: &View<'_>) -> bool {
    match view.type_code() {
        types::LIST => view.list().is_some_and(|list| list.iter().all(|item| is_plain(&item))),
        types::DICT | types::SORTED_DICT => {
            view.dict().is_some_and(|dict| is_plain(&dict.keys) && is_plain(&dict.values))
        }
        types::TABLE => view.table().is_some_and(|table| table.columns.iter().all(|column| is_plain(&column))),
        types::UNARY => view.is_null(),
        ty => (types::BOOL..=types::TIME).contains(&ty.saturating_abs()),
    }
}

fn put_rejected(all: &[Arc<Refused>], writer: &mut Writer<'_>) {
    writer.table_head(REJECTED_COLUMNS);
    let ids: Vec<i64> = all.iter().map(|refused| long(refused.id)).collect();
    writer.vector(types::LONG, types::ATTR_NONE, &ids);
    let times: Vec<i64> = all.iter().map(|refused| refused.time_ns).collect();
    writer.vector(types::TIMESTAMP, types::ATTR_NONE, &times);
    writer.symbols(all.iter().map(|refused| shown_name(&refused.table)));
    writer.symbols(all.iter().map(|refused| shown_name(&refused.user)));
    writer.symbols(all.iter().map(|refused| refused.address.to_string()));
    let handles: Vec<i32> = all.iter().map(|refused| refused.handle).collect();
    writer.vector(types::INT, types::ATTR_NONE, &handles);
    writer.symbols(all.iter().map(|refused| shown_name(refused.number().0)));
    let numbers: Vec<i64> = all.iter().map(|refused| refused.number().1).collect();
    writer.vector(types::LONG, types::ATTR_NONE, &numbers);
    writer.symbols(all.iter().map(|refused| shown_name(refused.term.as_bytes())));
    writer.list_head(all.len());
    all.iter().for_each(|refused| writer.chars(&refused.reason));
    let bytes: Vec<i64> = all.iter().map(|refused| long(refused.message_bytes as u64)).collect();
    writer.vector(types::LONG, types::ATTR_NONE, &bytes);
}

/// Bytes shown of a name that a publisher has chosen: with all of the quarantine's names different, a query still has room for their
/// symbols.
const SHOWN_NAME_BYTES: usize = 128;

/// Returns a name as a symbol shows it: it may be any bytes, and a symbol ends at its first NUL.
fn shown_name(text: &[u8]) -> &[u8] {
    let name = text.split(|byte| *byte == 0).next().unwrap_or_default();
    name.get(..SHOWN_NAME_BYTES).unwrap_or(name)
}

/// Writes `.u.quarantine`.
pub(super) fn put_quarantine(all: &[Arc<Refused>], writer: &mut Writer<'_>) {
    writer.table_head(QUARANTINE_COLUMNS);
    let times: Vec<i64> = all.iter().map(|refused| refused.time_ns).collect();
    writer.vector(types::TIMESTAMP, types::ATTR_NONE, &times);
    let handles: Vec<i32> = all.iter().map(|refused| refused.handle).collect();
    writer.vector(types::INT, types::ATTR_NONE, &handles);
    writer.symbols(all.iter().map(|refused| shown_name(&refused.user)));
    writer.symbols(all.iter().map(|refused| shown_name(&refused.table)));
    writer.symbols(all.iter().map(|refused| shown_name(refused.term.as_bytes())));
    writer.list_head(all.len());
    all.iter().for_each(|refused| writer.chars(&refused.reason));
    let bytes: Vec<i64> = all.iter().map(|refused| long(refused.message_bytes as u64)).collect();
    writer.vector(types::LONG, types::ATTR_NONE, &bytes);
    writer.list_head(all.len());
    all.iter().for_each(|refused| writer.vector(types::BYTE, types::ATTR_NONE, &refused.message));
}

/// Writes `.u.asg.tab`: the paper's ten columns and elastick's own.
fn put_rows(names: &[&str], rows: &[Row], writer: &mut Writer<'_>) {
    fn longs(writer: &mut Writer<'_>, ty: i8, values: impl Iterator<Item = Option<i64>>) {
        let values: Vec<i64> = values.map(|value| value.unwrap_or(types::NULL_LONG)).collect();
        writer.vector(ty, types::ATTR_NONE, &values);
    }
    fn ints(writer: &mut Writer<'_>, values: impl Iterator<Item = Option<i32>>) {
        let values: Vec<i32> = values.map(|value| value.unwrap_or(types::NULL_INT)).collect();
        writer.vector(types::INT, types::ATTR_NONE, &values);
    }
    writer.table_head(names.iter().copied());
    longs(writer, types::TIMESTAMP, rows.iter().map(|row| Some(row.time_ns)));
    ints(writer, rows.iter().map(|row| row.handle));
    writer.list_head(rows.len());
    rows.iter().for_each(|row| writer.symbols(&row.tabs));
    writer.list_head(rows.len());
    for row in rows {
        match row.syms.as_slice() {
            [one] if row.tabs.len() == 1 => put_symbols(one, writer),
            many => {
                writer.list_head(many.len());
                many.iter().for_each(|syms| put_symbols(syms, writer));
            }
        }
    }
    let ips: Vec<String> = rows.iter().map(|row| row.ip.to_string()).collect();
    writer.symbols(&ips);
    writer.symbols(rows.iter().map(|row| &row.queue.0));
    longs(writer, types::TIMESTAMP, rows.iter().map(|row| row.live_ns));
    longs(writer, types::TIMESTAMP, rows.iter().map(|row| row.rolled_ns));
    longs(writer, types::LONG, rows.iter().map(|row| row.first_index.map(|index| long(index.0))));
    longs(writer, types::LONG, rows.iter().map(|row| row.last_index.map(|index| long(index.0))));
    writer.symbols(rows.iter().map(|row| &row.node));
    writer.symbols(rows.iter().map(|row| row.state));
    let memory: Vec<f64> = rows.iter().map(|row| row.memory_percent.unwrap_or(types::NULL_FLOAT)).collect();
    writer.vector(types::FLOAT, types::ATTR_NONE, &memory);
    longs(writer, types::LONG, rows.iter().map(|row| row.rows.map(long)));
    longs(writer, types::LONG, rows.iter().map(|row| row.bytes.map(long)));
    longs(writer, types::LONG, rows.iter().map(|row| row.next.map(|next| long(next.0))));
    writer.symbols(rows.iter().map(|row| match row.verified {
        Verified::Unknown => "",
        Verified::Yes => "yes",
        Verified::No => "no",
    }));
    ints(writer, rows.iter().map(|row| row.port.map(i32::from)));
    writer.list_head(rows.len());
    for row in rows {
        let held: Vec<i64> = row.held.iter().flat_map(|held| [long(held.first().0), long(held.last().0)]).collect();
        writer.vector(types::LONG, types::ATTR_NONE, &held);
    }
    longs(writer, types::TIMESTAMP, rows.iter().map(|row| row.leaving_ns));
    longs(writer, types::LONG, rows.iter().map(|row| row.refused.map(long)));
}

/// An empty list stands for all symbols, shown as in the paper, `` ,` ``.
fn put_symbols(symbols: &[Vec<u8>], writer: &mut Writer<'_>) {
    if symbols.is_empty() { writer.symbols([""]) } else { writer.symbols(symbols) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Date, Handle, Params, Queue, QueueEvent, QueueName, Subscribe, Subscription, UpdateIndex};

    #[test]
    fn the_queue_is_a_table_of_all_its_columns() {
        let mut queue = Queue::new(Params::default(), Date(0));
        for handle in 5..8 {
            let subscription = Subscription { tabs: vec![vec![]], syms: vec![vec![vec![]]] };
            let subscribe = Subscribe {
                handle: Handle(handle),
                queue: QueueName(b"q".to_vec()),
                subscription: subscription.into(),
                ip: std::net::Ipv4Addr::LOCALHOST.into(),
            };
            queue.step(QueueEvent::Subscribe(subscribe), UpdateIndex(0), crate::queue::Now::default());
        }
        let mut object = Vec::new();
        let mut writer = Writer::new(&mut object);
        put_rows(&crate::queue::COLUMNS, &queue.rows(), &mut writer);
        writer.finish().unwrap();
        let (view, used) = View::parse(&object, Endian::Little, &Limits::default()).unwrap();
        let table = view.table().unwrap();
        assert_eq!((used, table.rows()), (object.len(), 3));
        let names: Vec<&[u8]> = table.names.symbols().collect();
        assert_eq!(names, crate::queue::COLUMNS.map(str::as_bytes));
        assert_eq!(table.column(b"ip").unwrap().vector().unwrap().symbols().next(), Some(&b"127.0.0.1"[..]));
    }
}
