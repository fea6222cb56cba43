//! The queue's journal: one line of text per step that changed something, from which a restarted tickerplant restores the table.
//!
//! A line is `crc tip changes`, separated by single spaces: the CRC-32C of the rest as eight hex digits, the tip, and the changes. A change
//! carries whole rows instead of events, so that rules may differ between versions. Names encode bytes other than letters, digits, `.` and
//! `_` as `%xx`; the empty name is `%`, and `-` means absent. A torn last line is ignored; damage before it is an error.

use super::ids::{Date, Handle, NodeName, QueueName, Symbol, UpdateIndex, Window};
use super::leave::Leaving;
use super::table::{Held, Line, Lost, OpenAtEnd, Params, Progress, Queue, State, Subscriber, SubscriberId};
use super::{Subscription, invariants};
use std::fmt::Write;
use std::sync::Arc;

/// The changes of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub tip: UpdateIndex,
    pub changes: Vec<Change>,
}

/// A row's new contents, or its removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Clears the table: the start of a snapshot.
    Reset {
        date: Date,
        next_id: SubscriberId,
    },
    Subscriber(Box<Subscriber>),
    SubscriberGone(SubscriberId),
    Line {
        queue: QueueName,
        line: Line,
    },
    LineGone(QueueName),
    /// An instance's node has left the queues.
    Departed {
        group: Symbol,
        instance: Symbol,
    },
    /// All updates of the day before this index are written down by another process.
    Written(UpdateIndex),
    /// A live node ends once it has finished the day before.
    Ending {
        id: SubscriberId,
        open: OpenAtEnd,
    },
    /// A process was evicted, and may not join again.
    Evicted(Symbol),
}

/// The contents of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    pub records: Vec<Record>,
    /// Length of the intact lines, in bytes: cut off the torn rest, and append here.
    pub good_bytes: u64,
}

/// Why a journal cannot be used. Joining nodes then claim what they hold, and unclaimed windows are rebuilt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    #[error("the queue's journal is damaged at line {line}, byte {offset}")]
    Damaged { line: u64, offset: u64 },
    #[error("the queue's journal belongs to {found}, expected {expected}")]
    OtherDay { found: Date, expected: Date },
    #[error("the queue's journal is inconsistent: {0}")]
    Contradiction(#[from] invariants::Violation),
}

/// Parses the bytes of a journal.
///
/// # Errors
/// [`JournalError::Damaged`] if a line other than the last is invalid.
pub fn read(bytes: &[u8]) -> Result<Journal, JournalError> {
    let mut journal = Journal { records: Vec::new(), good_bytes: 0 };
    let mut lines = bytes.split_inclusive(|&byte| byte == b'\n').peekable();
    let mut number = 0;
    while let Some(line) = lines.next() {
        number += 1;
        match line.strip_suffix(b"\n").and_then(Record::decode) {
            Some(record) => {
                journal.records.push(record);
                journal.good_bytes += line.len() as u64;
            }
            None if lines.peek().is_none() => break,
            None => return Err(JournalError::Damaged { line: number, offset: journal.good_bytes }),
        }
    }
    Ok(journal)
}

impl Queue {
    /// Returns the table that these records produce. Its first event must be [`super::QueueEvent::Restored`].
    ///
    /// # Errors
    /// The records are of another day, or produce a table that violates an invariant.
    pub fn restore(params: Params, date: Date, records: &[Record]) -> Result<Queue, JournalError> {
        let mut queue = Queue::new(params, date);
        for record in records {
            queue.tip = record.tip;
            for change in &record.changes {
                queue.apply(change);
            }
        }
        if queue.date != date {
            return Err(JournalError::OtherDay { found: queue.date, expected: date });
        }
        queue.subscribers.sort_by_key(|s| s.id);
        invariants::check_kept(&queue)?;
        Ok(queue)
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Reset { date, next_id } => {
                self.date = *date;
                self.next_id = *next_id;
                self.subscribers.clear();
                self.lines.clear();
                self.written = UpdateIndex::default();
                self.departed.clear();
                self.evicted.clear();
                self.ending.clear();
            }
            Change::Subscriber(sub) => {
                self.next_id = self.next_id.max(SubscriberId(sub.id.0.saturating_add(1)));
                match self.find(sub.id) {
                    Some(row) => row.clone_from(sub),
                    None => self.subscribers.push((**sub).clone()),
                }
            }
            Change::SubscriberGone(id) => {
                self.next_id = self.next_id.max(SubscriberId(id.0.saturating_add(1)));
                self.remove(*id);
            }
            Change::Line { queue, line } => {
                self.lines.insert(queue.clone(), line.clone());
            }
            Change::LineGone(queue) => {
                self.lines.remove(queue);
            }
            Change::Written(next) => self.written = *next,
            Change::Ending { id, open } => {
                self.ending.insert(*id, *open);
            }
            Change::Departed { group, instance } => self.departed.restore(group, instance),
            Change::Evicted(process) => self.evicted.restore(process),
        }
        // A snapshot has these nodes after their rows.
        if matches!(change, Change::Line { .. } | Change::Subscriber(_)) {
            self.keep_ending();
        }
    }
}

impl Record {
    /// Returns whether this is a whole table: the first record of a new day's journal, to be written to a new file.
    pub fn is_snapshot(&self) -> bool {
        matches!(self.changes.first(), Some(Change::Reset { .. }))
    }

    /// Returns the line to append, with its line feed.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(String::new());
        out.number(self.tip.0);
        for change in &self.changes {
            out.change(change);
        }
        let body = out.0.trim_start();
        format!("{:08x} {body}\n", crc32c::crc32c(body.as_bytes())).into_bytes()
    }

    /// Parses a line without its line feed; `None` if it is invalid.
    fn decode(line: &[u8]) -> Option<Record> {
        let (crc, body) = std::str::from_utf8(line).ok()?.split_once(' ')?;
        if crc.len() != 8 || u32::from_str_radix(crc, 16).ok()? != crc32c::crc32c(body.as_bytes()) {
            return None;
        }
        let mut words = Reader(body.split(' '));
        let tip = UpdateIndex(words.number()?);
        let mut changes = Vec::new();
        while let Some(word) = words.0.next() {
            changes.push(words.change(word)?);
        }
        Some(Record { tip, changes })
    }
}

/// The words of a line, each preceded by a space.
struct Writer(String);

impl Writer {
    fn word(&mut self, word: &str) {
        self.0.push(' ');
        self.0.push_str(word);
    }

    fn number(&mut self, number: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, " {number}");
    }

    fn option(&mut self, value: Option<impl std::fmt::Display>) {
        match value {
            Some(value) => self.number(value),
            None => self.word("-"),
        }
    }

    fn name(&mut self, name: &[u8]) {
        self.0.push(' ');
        if name.is_empty() {
            self.0.push('%');
        }
        for &byte in name {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_') {
                self.0.push(char::from(byte));
            } else {
                let _ = write!(self.0, "%{byte:02x}");
            }
        }
    }

    fn optional_name(&mut self, name: Option<&[u8]>) {
        match name {
            Some(name) => self.name(name),
            None => self.word("-"),
        }
    }

    fn window(&mut self, window: Window) {
        self.number(window.first());
        self.number(window.last());
    }

    fn names(&mut self, names: &[Symbol]) {
        self.number(names.len());
        names.iter().for_each(|name| self.name(name));
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Reset { date, next_id } => {
                self.word("reset");
                self.number(date.0);
                self.number(next_id.0);
            }
            Change::Subscriber(sub) => {
                // A row without group, instance and announcement keeps the older format `sub`, which earlier versions can read.
                let plain = sub.group.is_none() && sub.instance.is_none() && sub.leaving.is_none();
                self.word(if plain { "sub" } else { "member" });
                self.subscriber(sub);
                if !plain {
                    self.optional_name(sub.group.as_deref());
                    self.optional_name(sub.instance.as_deref());
                    self.option(sub.leaving.map(|leaving| leaving.by_ns));
                    self.option(sub.leaving.map(|leaving| leaving.replaced));
                }
            }
            Change::SubscriberGone(id) => {
                self.word("gone");
                self.number(id.0);
            }
            Change::Line { queue, line } => {
                // A queue whose first nodes the tickerplant does not request keeps the older format `line`, which earlier versions can read.
                let plain = line.group.is_none() && line.asleep.is_none() && line.filled.is_none();
                self.word(if plain { "line" } else { "queue" });
                self.name(&queue.0);
                self.number(line.open);
                self.number(line.lost.len());
                for lost in &line.lost {
                    self.window(lost.window);
                    self.number(lost.rejections);
                }
                if !plain {
                    self.optional_name(line.group.as_deref());
                    self.option(line.asleep);
                    self.option(line.filled);
                }
            }
            Change::LineGone(queue) => {
                self.word("noline");
                self.name(&queue.0);
            }
            Change::Written(next) => {
                self.word("written");
                self.number(next);
            }
            Change::Ending { id, open } => {
                self.word("ending");
                self.number(id.0);
                self.number(open.from);
                self.number(open.to);
            }
            Change::Departed { group, instance } => {
                self.word("departed");
                self.name(group);
                self.name(instance);
            }
            Change::Evicted(process) => {
                self.word("evicted");
                self.name(process);
            }
        }
    }

    fn subscriber(&mut self, sub: &Subscriber) {
        self.number(sub.id.0);
        self.number(sub.time_ns);
        self.option(sub.handle);
        self.optional_name(sub.node.as_ref().map(|node| node.0.as_slice()));
        self.name(&sub.queue.0);
        self.names(&sub.subscription.tabs);
        self.number(sub.subscription.syms.len());
        sub.subscription.syms.iter().for_each(|syms| self.names(syms));
        self.number(sub.ip);
        self.option(sub.port);
        self.word(sub.state.name());
        if let State::Rebuilding { window, rejections } = sub.state {
            self.window(window);
            self.number(rejections);
        }
        if let State::TakingOver { window, rejections, progress } = sub.state {
            self.window(window);
            self.number(rejections);
            self.word(progress_word(progress));
        }
        self.option(sub.live_ns);
        self.option(sub.rolled_ns);
        self.option(sub.span.map(Window::first));
        self.option(sub.span.map(Window::last));
        self.number(sub.held.len());
        for held in &sub.held {
            self.window(held.window);
            self.option(held.verified);
            self.number(held.rejections);
        }
        self.number(sub.rejected);
        self.option(sub.resume_by_ns);
    }
}

struct Reader<'a>(std::str::Split<'a, char>);

impl Reader<'_> {
    fn number<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.0.next()?.parse().ok()
    }

    fn option<T: std::str::FromStr>(&mut self) -> Option<Option<T>> {
        match self.0.next()? {
            "-" => Some(None),
            word => word.parse().ok().map(Some),
        }
    }

    fn name(&mut self) -> Option<Symbol> {
        name(self.0.next()?)
    }

    fn window(&mut self) -> Option<Window> {
        Window::new(UpdateIndex(self.number()?), UpdateIndex(self.number()?))
    }

    /// Reads a count and that many items. Nothing is allocated ahead: the count may be wrong.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count: u64 = self.number()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Some(items)
    }

    fn change(&mut self, word: &str) -> Option<Change> {
        Some(match word {
            "reset" => Change::Reset { date: Date(self.number()?), next_id: SubscriberId(self.number()?) },
            "sub" => Change::Subscriber(Box::new(self.subscriber()?)),
            "member" => Change::Subscriber(Box::new(self.member()?)),
            "gone" => Change::SubscriberGone(SubscriberId(self.number()?)),
            "line" | "queue" => {
                let queue = QueueName(self.name()?);
                let open = UpdateIndex(self.number()?);
                let lost = self.list(|r| Some(Lost { window: r.window()?, rejections: r.number()? }))?;
                let (group, asleep, filled) = match word {
                    "line" => (None, None, None),
                    _ => (self.optional_name()?, self.option()?.map(UpdateIndex), self.option()?),
                };
                Change::Line { queue, line: Line { open, lost, group, asleep, filled } }
            }
            "noline" => Change::LineGone(QueueName(self.name()?)),
            "written" => Change::Written(UpdateIndex(self.number()?)),
            "ending" => Change::Ending {
                id: SubscriberId(self.number()?),
                open: OpenAtEnd { from: UpdateIndex(self.number()?), to: UpdateIndex(self.number()?) },
            },
            "departed" => Change::Departed { group: self.name()?, instance: self.name()? },
            "evicted" => Change::Evicted(self.name()?),
            _ => return None,
        })
    }

    fn optional_name(&mut self) -> Option<Option<Symbol>> {
        match self.0.next()? {
            "-" => Some(None),
            word => name(word).map(Some),
        }
    }

    fn member(&mut self) -> Option<Subscriber> {
        let mut sub = self.subscriber()?;
        (sub.group, sub.instance) = (self.optional_name()?, self.optional_name()?);
        let (by_ns, replaced) = (self.option()?, self.option()?);
        sub.leaving = by_ns.zip(replaced).map(|(by_ns, replaced)| Leaving { by_ns, replaced });
        Some(sub)
    }

    fn subscriber(&mut self) -> Option<Subscriber> {
        Some(Subscriber {
            id: SubscriberId(self.number()?),
            time_ns: self.number()?,
            handle: self.option()?.map(Handle),
            node: self.optional_name()?.map(NodeName),
            queue: QueueName(self.name()?),
            subscription: Arc::new(Subscription {
                tabs: self.list(Self::name)?,
                syms: self.list(|r| r.list(Self::name))?,
            }),
            ip: self.number()?,
            port: self.option()?,
            group: None,
            instance: None,
            leaving: None,
            state: self.state()?,
            live_ns: self.option()?,
            rolled_ns: self.option()?,
            span: {
                let (first, last) = (self.option()?, self.option()?);
                first.zip(last).and_then(|(first, last)| Window::new(UpdateIndex(first), UpdateIndex(last)))
            },
            held: self.list(|r| Some(Held { window: r.window()?, verified: r.option()?, rejections: r.number()? }))?,
            rejected: self.number()?,
            resume_by_ns: self.option()?,
        })
    }

    fn state(&mut self) -> Option<State> {
        Some(match self.0.next()? {
            "waiting" => State::Waiting,
            "live" => State::Live,
            "rebuilding" => State::Rebuilding { window: self.window()?, rejections: self.number()? },
            "taking" => State::TakingOver {
                window: self.window()?,
                rejections: self.number()?,
                progress: {
                    let word = self.0.next()?;
                    PROGRESS.into_iter().find(|progress| progress_word(*progress) == word)?
                },
            },
            "rolled" => State::Rolled,
            "lost" => State::Lost,
            _ => return None,
        })
    }
}

const PROGRESS: [Progress; 4] = [
    Progress::Replaying,
    Progress::Filled,
    Progress::Proved { as_logged: true },
    Progress::Proved { as_logged: false },
];

fn progress_word(progress: Progress) -> &'static str {
    match progress {
        Progress::Replaying => "replaying",
        Progress::Filled => "filled",
        Progress::Proved { as_logged: true } => "proved",
        Progress::Proved { as_logged: false } => "differing",
    }
}

fn name(word: &str) -> Option<Symbol> {
    if word == "%" {
        return Some(Symbol::new());
    }
    let mut bytes = word.bytes();
    let mut name = Symbol::with_capacity(word.len());
    while let Some(byte) = bytes.next() {
        name.push(match byte {
            b'%' => {
                let digit = |b: Option<u8>| char::from(b?).to_digit(16).and_then(|d| u8::try_from(d).ok());
                digit(bytes.next())? << 4 | digit(bytes.next())?
            }
            byte => byte,
        });
    }
    Some(name)
}
