//! Compares the proof of a node with the log, and finds the position of a paper subscriber by counting its messages in the log. Runs on
//! its own thread, because a window may be the whole day.

use super::core::batch::Batch;
use super::core::call::Call;
use super::core::older::older;
use super::core::schema::{Current, TableSpec, Tables};
use super::core::{Rules, Stamp, publish};
use super::filter::Filter;
use super::lane::LaneSpec;
use super::worker::Worker;
use crate::env::Env;
use crate::log::{Keep, LogError, LogReader, LogSource, Proof, Waker, columns_of, window_proof};
use crate::net::ConnId;
use crate::points::{self, Point};
use crate::queue::{Date, Handle, UpdateIndex, Window};
use proto::Limits;
use proto::log::Record;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a log on a network file system may take to show written data.
const VISIBLE_WITHIN: Duration = Duration::from_secs(120);

/// Pause before the first retry of an unreadable log; it doubles from then on.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const MAX_PAUSE: Duration = Duration::from_secs(600);

/// A question about a log.
pub struct Job {
    pub handle: Handle,
    /// Connection of the handle at the time of the job; the handle may belong to another connection when the result arrives.
    pub conn: Option<ConnId>,
    pub date: Date,
    pub log: LogSource,
    pub spec: Arc<LaneSpec>,
    pub question: Question,
    /// Number of failed reads.
    pub failures: u32,
}

impl Job {
    /// Counts a failed read and returns the pause before the next one. The pause grows because a log that was moved away may never come
    /// back.
    pub fn next_pause(&mut self) -> Duration {
        let pause = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(self.failures)).min(MAX_PAUSE);
        self.failures = self.failures.saturating_add(1);
        pause
    }
}

/// Question about a log.
pub enum Question {
    /// Does the node hold this window as logged?
    Proof { window: Window, held: Proof },
    /// The subscriber received `messages` since `from`: which update is next?
    Position { from: u64, until: u64, messages: u64 },
}

/// Result of a job.
pub struct Done {
    pub job: Job,
    pub answer: Result<Verdict, LogError>,
}

/// Answer to a [`Question`].
pub enum Verdict {
    Proof {
        window: Window,
        /// How the node's content differs from the log, for display.
        difference: Option<String>,
    },
    /// `None` if the log has not that many messages for the subscriber.
    Position(Option<UpdateIndex>),
}

/// Starts the thread.
///
/// # Errors
/// The operating system's, if no thread can be started.
pub fn start(
    env: &Env,
    tables: Current,
    limits: Limits,
    chunk_bytes: usize,
    waker: Waker,
) -> io::Result<Worker<Job, Done>> {
    Worker::start(&*env.spawner, "verify", (1, false), waker, || {
        let (env, tables) = (env.clone(), tables.clone());
        move |job: Job| answer(&env, &tables.get(), &limits, chunk_bytes, job)
    })
}

fn answer(env: &Env, tables: &Tables, limits: &Limits, chunk_bytes: usize, job: Job) -> Done {
    let now = env.clock.now();
    let deadline = now.checked_add(VISIBLE_WITHIN).unwrap_or(now);
    let answer = LogReader::of(env, &job.log, *limits, chunk_bytes).and_then(|mut reader| match &job.question {
        Question::Proof { window, held } => {
            let logged = proof_of(tables, &job.spec, &mut reader, *window, deadline)?;
            points::reach(Point::ProofCompared);
            Ok(Verdict::Proof { window: *window, difference: difference(&logged, held) })
        }
        Question::Position { from, until, messages } => {
            let (from, until, messages) = (*from, *until, *messages);
            let found = position_of(tables, &job.spec, &mut reader, (from, until, messages), deadline)?;
            Ok(Verdict::Position(found.map(UpdateIndex)))
        }
    });
    Done { job, answer }
}

/// Returns the part of a record that a node of this fan-out group must hold. A record that does not fit the table counts whole: no node
/// can hold it, so the proof differs, as it must while rows of the window cannot be queried.
fn due(tables: &Tables, spec: &LaneSpec, record: &Record<'_>, out: &mut Vec<u8>) -> Keep {
    let Some((table, own)) = tables.find(record.table) else {
        // Records of a removed table count only for a subscriber of all tables.
        return if spec.is_everything() { Keep::Whole } else { Keep::Skip };
    };
    match spec.filter(table) {
        None => Keep::Skip,
        Some(Filter::All) => Keep::Whole,
        Some(_) => match sent(tables, spec, record, out) {
            Keep::Skip if !is_plain(own, record) && !is_acceptable(tables, record) => Keep::Whole,
            keep => keep,
        },
    }
}

/// Returns the part of a record that is sent to a fan-out group: nothing of a record that does not fit the table.
fn sent(tables: &Tables, spec: &LaneSpec, record: &Record<'_>, out: &mut Vec<u8>) -> Keep {
    if record.is_schema() {
        return Keep::Skip;
    }
    let Some((table, own)) = tables.find(record.table) else { return Keep::Skip };
    let Some(filter) = spec.filter(table) else { return Keep::Skip };
    let plain = is_plain(own, record);
    match filter {
        Filter::All if plain || is_acceptable(tables, record) => Keep::Whole,
        Filter::All => Keep::Skip,
        filter => {
            let (columns, rows) = columns_of(&record.columns);
            let rows = usize::try_from(rows).unwrap_or(0);
            // Only columns in the tickerplant's own form can be filtered without decoding.
            match if plain { filter.select(own, columns, rows, out) } else { 0 } {
                0 => Keep::Skip,
                chosen if chosen == rows => Keep::Whole,
                chosen => Keep::Encoded { rows: chosen as u64 },
            }
        }
    }
}

/// Whether a record has the form in which the tickerplant writes it: columns of the table's types and of one length. Later columns may be
/// missing at the end.
fn is_plain(own: &TableSpec, record: &Record<'_>) -> bool {
    if older(own, record).is_some() {
        return true;
    }
    let Some(list) = record.columns.list().filter(|list| list.count == own.columns.len()) else { return false };
    let mut rows = None;
    list.iter().zip(&own.columns).all(|(column, spec)| {
        let length = column.count();
        column.type_code() == spec.ty && *rows.get_or_insert(length) == length
    })
}

/// Whether a record that another program wrote in another form (a row, a table) would be accepted today.
pub(super) fn is_acceptable(tables: &Tables, record: &Record<'_>) -> bool {
    let call = Call { table: record.table, data: record.columns.raw() };
    publish(tables, &call, Stamp::default(), Rules::exact(&Limits::default()), &mut Batch::default()).is_ok()
}

fn proof_of(
    tables: &Tables,
    spec: &LaneSpec,
    reader: &mut LogReader,
    window: Window,
    deadline: Instant,
) -> Result<Proof, LogError> {
    let range = window.first().0..window.last().0;
    window_proof(reader, range, deadline, |_, record, out| due(tables, spec, record, out))
}

/// Returns the index after the update with which a subscriber has received `messages` since `from`, if the log has that many.
fn position_of(
    tables: &Tables,
    spec: &LaneSpec,
    reader: &mut LogReader,
    (from, until, messages): (u64, u64, u64),
    deadline: Instant,
) -> Result<Option<u64>, LogError> {
    let (mut counted, mut position) = (0u64, from);
    if messages == 0 {
        return Ok(Some(from));
    }
    let mut scratch = Vec::new();
    reader.replay(from..until, 1 << 20, deadline, |chunk| {
        for (index, record) in chunk.records() {
            scratch.clear();
            let is_sent = record.is_some_and(|record| !matches!(sent(tables, spec, &record, &mut scratch), Keep::Skip));
            if is_sent {
                counted = counted.saturating_add(1);
                position = index.saturating_add(1);
                if counted == messages {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok((counted == messages).then_some(position))
}

fn difference(logged: &Proof, held: &Proof) -> Option<String> {
    if logged == held {
        return None;
    }
    let differing = logged.iter().map(|(name, log)| (name, log, held.table(name))).filter(|(_, log, node)| log != node);
    let mut parts: Vec<String> = differing
        .map(|(name, log, node)| {
            format!(
                "{}: {} updates with {} rows logged, {} with {} held{}",
                name.escape_ascii(),
                log.updates,
                log.rows,
                node.updates,
                node.rows,
                if (log.updates, log.rows) == (node.updates, node.rows) { ", with different values" } else { "" },
            )
        })
        .collect();
    // Not by name: number and length of these names are the node's choice.
    let others = held.iter().filter(|(name, _)| !logged.has(name)).count();
    if others > 0 {
        parts.push(format!("{others} tables held of which the window has no rows in the log"));
    }
    Some(parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Attr;
    use crate::table::schema::{ColumnSchema, Schema};
    use crate::table::symbol::intern;
    use crate::tick::core::schema::Form;
    use crate::tick::filter::Symbols;
    use crate::tick::lane::LaneKey;
    use proto::{Value, encode, log};

    fn tables() -> Tables {
        let sym = |text: &str| intern(text.as_bytes()).unwrap();
        let columns_of = [("time", 16), ("sym", 11)];
        let column = |(name, ty)| ColumnSchema { name: sym(name), ty, attr: Attr::None };
        Tables::new([Schema { name: sym("trade"), columns: columns_of.map(column).to_vec(), keys: 0 }]).unwrap()
    }

    /// For a node that takes all of `trade` (time and symbol): whether it must hold a record of `name`, and whether the record is sent.
    fn due_and_sent(name: &str, columns: Value) -> (bool, bool) {
        let tables = tables();
        let key = LaneKey { tables: vec![Some(Symbols::All)], form: Form::Indexed, merged: false, compress: false };
        let mut bytes = Vec::new();
        encode::encode_object(&Value::list([Value::symbol("upd"), Value::symbol(name), columns]), &mut bytes).unwrap();
        let (_, view) = log::next_record(&bytes, &Limits::default()).unwrap().unwrap();
        let record = log::record(view).unwrap();
        let spec = LaneSpec::new(key);
        let kept = |of: fn(&Tables, &LaneSpec, &Record<'_>, &mut Vec<u8>) -> Keep| {
            !matches!(of(&tables, &spec, &record, &mut Vec::new()), Keep::Skip)
        };
        (kept(due), kept(sent))
    }

    #[test]
    fn a_log_that_was_moved_is_retried_at_growing_intervals() {
        let spec = LaneSpec::new(LaneKey { tables: Vec::new(), form: Form::Indexed, merged: false, compress: false });
        let question = Question::Position { from: 0, until: 1, messages: 1 };
        let (log, handle) = (LogSource::at("/no/such/log".into()), Handle(5));
        let mut job = Job { handle, conn: None, date: Date(1), log, spec, question, failures: 0 };
        let mut pauses = Vec::new();
        while pauses.iter().sum::<Duration>() < Duration::from_secs(86_400) {
            let done = answer(&Env::system(), &tables(), &Limits::default(), 4096, job);
            assert!(done.answer.is_err());
            job = done.job;
            pauses.push(job.next_pause());
        }
        assert!(pauses.is_sorted() && pauses.first() == Some(&FIRST_PAUSE) && pauses.len() < 200, "{pauses:?}");
    }

    #[test]
    fn records_that_fit_count_in_every_form() {
        let columns = Value::list([Value::timespans(vec![1, 2]), Value::symbols(["a", "b"])]);
        assert_eq!(due_and_sent("trade", columns), (true, true));
        assert_eq!(due_and_sent("trade", Value::list([Value::Timespan(1), Value::symbol("a")])), (true, true));
    }

    #[test]
    fn records_that_no_node_can_take_count_so_that_its_proof_differs() {
        for columns in [
            Value::list([Value::timespans(vec![1, 2]), Value::longs(vec![1, 2])]),
            Value::list([Value::timespans(vec![1, 2]), Value::symbols(["a"])]),
            Value::list([Value::timespans(vec![1]), Value::symbols(["a"]), Value::longs(vec![1])]),
        ] {
            assert_eq!(due_and_sent("trade", columns), (true, false));
        }
        let of_no_table = Value::list([Value::timespans(vec![1]), Value::symbols(["a"])]);
        assert_eq!(due_and_sent("gone", of_no_table), (true, false));
    }
}
