//! The hot path: the body of a message that publishes an update, checked against a schema.

use super::limits;
use elastick::q::{Limits, script, session::Session};
use elastick::table::schema::Schema;
use elastick::tick::core::{self, Accepted, Rules, Stamp, Tables, batch::Batch, call};
use std::sync::OnceLock;

const SCHEMA: &[u8] = b"trade:([]time:`timespan$();sym:`g#`symbol$();price:`float$();size:`long$();side:`char$())\n\
    quote:([]time:`timestamp$();sym:`symbol$();bid:`real$();ask:`real$();n:`int$();ok:`boolean$();text:())\n\
    mixed:([]time:`time$();sym:`symbol$();g:`guid$();b:`byte$();h:`short$();m:`month$();d:`date$();z:`datetime$();u:`minute$())\n";

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut session = Session::new();
        script::run(SCHEMA, &mut session, &Limits::default()).expect("the schema is right");
        let schemas: Vec<Schema> = session.globals().filter_map(|(name, value)| Schema::of(name, value)).collect();
        Tables::new(schemas).expect("three tables")
    })
}

/// Target `publish`: the body of a message.
pub fn publish(bytes: &[u8]) {
    let Some(call) = call::recognise(bytes) else { return };
    let Some(logged) = published(&call) else { return };
    // An accepted update is one whole log record, and yields the same record when published again.
    let (length, view) = proto::log::next_record(&logged, &limits()).expect("a record").expect("a whole one");
    assert_eq!(length, logged.len());
    let record = proto::log::record(view).expect("an update");
    assert_eq!((record.function, record.table), (&b"upd"[..], call.table));
    let again = call::Call { table: record.table, data: record.columns.raw() };
    assert_eq!(published(&again).as_deref(), Some(&logged[..]));
}

/// Returns the log record of an update; `None` if the update is rejected or has no rows.
fn published(call: &call::Call<'_>) -> Option<Vec<u8>> {
    let mut batch = Batch::new(7);
    let rules = Rules { limits: &limits(), coerce: true };
    match core::publish(tables(), call, Stamp { timestamp_ns: 1 }, rules, &mut batch) {
        Ok(Accepted { update, .. }) if update.rows > 0 => {
            assert_eq!(batch.tip(), 8);
            assert_eq!(batch.updates(), [update]);
            assert!(batch.bytes().len() as u64 <= limits().max_message_bytes);
            Some(batch.bytes().to_vec())
        }
        Ok(_) | Err(_) => {
            assert!(batch.bytes().is_empty() && batch.is_empty(), "a refusal leaves no trace");
            None
        }
    }
}
