//! Comparing what a node says it holds with the log, and counting a paper subscriber's messages in it. Runs on a thread of its
//! own: a window may be the whole day.

use super::core::schema::Tables;
use super::filter::Filter;
use super::lane::LaneSpec;
use super::worker::Worker;
use crate::log::{Keep, LogError, LogReader, Proof, columns_of, window_proof};
use crate::queue::{Date, Handle, UpdateIndex, Window};
use mio::Waker;
use proto::log::Record;
use proto::{Limits, types};
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a log on a network file system may take to show what was written to it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Something to find out from a log.
pub struct Job {
    pub handle: Handle,
    pub date: Date,
    pub log: PathBuf,
    pub spec: Arc<LaneSpec>,
    pub question: Question,
}

pub enum Question {
    /// Does a node hold this window as it was logged?
    Proof { window: Window, held: Proof },
    /// A subscriber got `messages` since `from`: which update is next?
    Position { from: u64, until: u64, messages: u64 },
}

/// What was found.
pub struct Done {
    pub handle: Handle,
    pub date: Date,
    pub answer: Result<Answer, LogError>,
}

pub enum Answer {
    Proof {
        window: Window,
        /// In words, where what is held differs from the log.
        difference: Option<String>,
    },
    /// `None` if it has not got so many.
    Position(Option<UpdateIndex>),
}

/// Starts the thread.
///
/// # Errors
/// The system's.
pub fn start(
    tables: Arc<Tables>,
    limits: Limits,
    chunk_bytes: usize,
    waker: Arc<Waker>,
) -> io::Result<Worker<Job, Done>> {
    Worker::start("verify", 1, waker, move || {
        let tables = Arc::clone(&tables);
        move |job: Job| answer(&tables, &limits, chunk_bytes, job)
    })
}

fn answer(tables: &Tables, limits: &Limits, chunk_bytes: usize, job: Job) -> Done {
    let Job { handle, date, log, spec, question } = job;
    let deadline = Instant::now().checked_add(PATIENCE).unwrap_or_else(Instant::now);
    let answer = LogReader::open(&log, *limits, chunk_bytes).and_then(|mut reader| match question {
        Question::Proof { window, held } => {
            let logged = proof_of(tables, &spec, &mut reader, window, deadline)?;
            Ok(Answer::Proof { window, difference: difference(&logged, &held) })
        }
        Question::Position { from, until, messages } => {
            let found = position_of(tables, &spec, &mut reader, (from, until, messages), deadline)?;
            Ok(Answer::Position(found.map(UpdateIndex)))
        }
    });
    Done { handle, date, answer }
}

/// The rows of a record that a lane's subscribers get.
fn wanted(tables: &Tables, spec: &LaneSpec, record: &Record<'_>, out: &mut Vec<u8>) -> Keep {
    let Some((table, own)) = tables.find(record.table) else { return Keep::Skip };
    match spec.filter(table) {
        None => Keep::Skip,
        Some(Filter::All) => Keep::Whole,
        Some(filter) => {
            let (columns, rows) = columns_of(&record.columns);
            // Only columns in our own form can be filtered as they stand.
            let fits = record.columns.type_code() == types::LIST
                && record.columns.list().is_some_and(|list| {
                    list.count == own.columns.len()
                        && list.iter().zip(&own.columns).all(|(column, spec)| column.type_code() == spec.ty)
                });
            let rows = usize::try_from(rows).unwrap_or(0);
            match if fits { filter.select(own, columns, rows, out) } else { 0 } {
                0 => Keep::Skip,
                chosen if chosen == rows => Keep::Whole,
                chosen => Keep::Encoded { rows: chosen as u64 },
            }
        }
    }
}

fn proof_of(
    tables: &Tables,
    spec: &LaneSpec,
    reader: &mut LogReader,
    window: Window,
    deadline: Instant,
) -> Result<Proof, LogError> {
    let range = window.first().0..window.last().0;
    window_proof(reader, range, deadline, |_, record, out| wanted(tables, spec, record, out))
}

/// The index behind the update with which a subscriber has got `messages` since `from`, if it got so many.
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
            let told = record.is_some_and(|record| !matches!(wanted(tables, spec, &record, &mut scratch), Keep::Skip));
            if told {
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
    let mut names: Vec<&[u8]> = logged.iter().chain(held.iter()).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    let parts = names.into_iter().filter_map(|name| {
        let (log, node) = (logged.table(name), held.table(name));
        (log != node).then(|| {
            format!(
                "{}: {} updates with {} rows logged, {} with {} held{}",
                name.escape_ascii(),
                log.updates,
                log.rows,
                node.updates,
                node.rows,
                if (log.updates, log.rows) == (node.updates, node.rows) { ", of other content" } else { "" },
            )
        })
    });
    Some(parts.collect::<Vec<_>>().join("; "))
}
