//! The variables of `.u`, as objects.

use super::Plant;
use crate::protocol::long;
use crate::queue::{Row, Verified};
use crate::tick::quarantine::Refused;
use crate::tick::subscriptions::RequestedSymbols;
use proto::{Writer, types};
use std::sync::Arc;

/// Names of the variables.
pub const VARIABLES: [&str; 12] = [
    ".u.t",
    ".u.w",
    ".u.i",
    ".u.j",
    ".u.L",
    ".u.l",
    ".u.d",
    ".u.stats",
    ".u.refused",
    ".u.quarantine",
    ".u.asg.tab",
    ".u.asg.tabV1",
];

/// Variables that [`Plant::put_named`] writes.
const NAMED: [&[u8]; 8] = [b".u.t", b".u.i", b".u.j", b".u.L", b".u.l", b".u.d", b".u.stats", b".u.refused"];

/// Columns of `.u.quarantine`.
const QUARANTINE_COLUMNS: [&str; 8] = ["time", "handle", "feed", "tab", "error", "reason", "bytes", "message"];

/// Names of the columns of `.u.asg.tabV1`, which keeps those of the first version for programs that read them. `next` is a word
/// of q: only ``t`next`` reads it.
fn columns_v1() -> Vec<&'static str> {
    crate::queue::COLUMNS.iter().map(|name| if *name == "nextI" { "next" } else { *name }).collect()
}

impl Plant {
    /// Writes the variable with this full name; false if there is none.
    pub fn put_variable(&self, name: &[u8], writer: &mut Writer<'_>) -> bool {
        match name {
            b".u.t" => writer.symbols(self.sorted_names()),
            b".u.w" => self.put_subscriptions(writer),
            b".u.i" | b".u.j" | b".u.L" if !self.log.exists() => return false,
            b".u.i" if self.merging.is_on() => writer.atom_long(long(self.feed.merged_tip())),
            b".u.i" | b".u.j" => writer.atom_long(long(self.feed.tip().index)),
            b".u.L" => writer.symbol(self.log_handle()),
            b".u.l" => writer.atom_int(if self.log.exists() { 3 } else { 0 }),
            b".u.d" => writer.atom_date(self.time.date().0),
            b".u.stats" => self.put_stats(writer),
            b".u.refused" => writer.atom_long(long(self.stats.refused)),
            b".u.asg.tab" => put_rows(&crate::queue::COLUMNS, &self.queue.core().rows(), writer),
            b".u.asg.tabV1" => put_rows(&columns_v1(), &self.queue.core().rows(), writer),
            _ => return false,
        }
        true
    }

    /// Writes the value of a text that only names a variable, or the position and name of the log, `` .u `i`L ``; false for any other
    /// text. Feeds and monitors send such texts often, and a query thread would have nothing to evaluate.
    pub fn put_named(&self, text: &[u8], writer: &mut Writer<'_>) -> bool {
        let text = text.trim_ascii();
        if NAMED.contains(&text) {
            return self.put_variable(text, writer);
        }
        let names = text.strip_prefix(b".u").map(<[u8]>::trim_ascii_start).and_then(|names| names.strip_prefix(b"`"));
        let Some(names) = names.filter(|_| self.log.exists()) else { return false };
        let mut names = names.split(|byte| *byte == b'`').map(|name| [b".u.", name].concat());
        match (names.next().as_deref(), names.next().as_deref(), names.next().as_deref(), names.next()) {
            (Some(first @ (b".u.i" | b".u.j")), Some(b".u.L"), None, None) => {
                writer.list_head(2);
                self.put_variable(first, writer) && self.put_variable(b".u.L", writer)
            }
            (Some(b".u.i"), Some(b".u.j"), Some(b".u.L"), None) => {
                writer.list_head(3);
                [&b".u.i"[..], b".u.j", b".u.L"].into_iter().all(|name| self.put_variable(name, writer))
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
    fn put_subscriptions(&self, writer: &mut Writer<'_>) {
        writer.dict_head();
        writer.symbols(self.sorted_names());
        writer.list_head(self.schemas.sorted().len());
        for table in self.schemas.sorted() {
            let entries = self.subscriptions.of(*table);
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

/// Writes `.u.quarantine`.
pub(super) fn put_quarantine(all: &[Arc<Refused>], writer: &mut Writer<'_>) {
    writer.table_head(QUARANTINE_COLUMNS);
    let times: Vec<i64> = all.iter().map(|refused| refused.time_ns).collect();
    writer.vector(types::TIMESTAMP, types::ATTR_NONE, &times);
    let handles: Vec<i32> = all.iter().map(|refused| refused.handle).collect();
    writer.vector(types::INT, types::ATTR_NONE, &handles);
    writer.symbols(all.iter().map(|refused| &refused.user));
    // A rejected table name may be any bytes; a symbol ends at its first NUL.
    let before_nul = |text: &'_ [u8]| text.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
    writer.symbols(all.iter().map(|refused| before_nul(&refused.table)));
    writer.symbols(all.iter().map(|refused| before_nul(refused.term.as_bytes())));
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
    use proto::{Endian, Limits, View};

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
