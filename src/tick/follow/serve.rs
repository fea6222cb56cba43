//! Reads the log for followers, on a thread of its own.

use crate::env::{Disk, Env, Open};
use crate::log::{self, LogError, LogReader, LogSource, Next, Waker};
use crate::net::message;
use crate::protocol::follow::{Ask, Beside, Greeted, Held, MAX_BLOCKS, Piece, Told, put_sums};
use crate::tick::logged_schema::schema_path;
use crate::tick::sequence_state;
use crate::tick::worker::Worker;
use bytes::Bytes;
use proto::{Limits, MessageKind};
use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::path::{Path, PathBuf};

/// Most bytes of the log in one response, unless one record is longer.
const MAX_CHUNK_BYTES: usize = 4 << 20;
/// Log readers kept open, also those of followers that have gone.
const OPEN_READERS: usize = 16;
/// Longest file beside the log that is copied.
pub(super) const MAX_BESIDE_BYTES: u64 = 64 << 20;

/// The logs of a directory.
#[derive(Clone, Debug)]
pub struct Place {
    pub dir: PathBuf,
    pub src: String,
}

impl Place {
    /// Returns the days of which there are logs, in order, in days since 2000.01.01.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn dates(&self, disk: &dyn Disk) -> io::Result<Vec<i32>> {
        let dates = disk.list(&self.dir)?.into_iter().filter_map(|path| {
            let date = log::date_of(&path)?;
            (path == log::log_path(&self.dir, &self.src, date)).then(|| crate::tick::clock::day_number(date).0)
        });
        let mut dates: Vec<i32> = dates.collect();
        dates.sort_unstable();
        Ok(dates)
    }

    /// Returns the path of a file beside a log.
    pub fn beside(&self, file: Beside, log: &Path) -> PathBuf {
        match file {
            Beside::Queue => log::queue_path(log),
            Beside::Schema => schema_path(log),
            Beside::Publishers => sequence_state::path(&self.dir, &self.src),
        }
    }
}

/// A read for a follower.
pub struct Job<K> {
    pub follower: K,
    pub log: LogSource,
    pub what: What,
}

pub enum What {
    /// Responds to a follower that has connected, with the days of which there are logs.
    Greet(Greeted),
    Sums(Vec<u64>),
    Read(Read),
}

/// What a follower gets of a log.
pub struct Read {
    pub ask: Ask,
    pub epoch: u64,
    /// Updates in the file of the current day; `None` for a day that has ended.
    pub until: Option<u64>,
    /// Whether to compare the files beside the log even if their lengths are those that the follower has.
    pub is_thorough: bool,
}

/// The response.
pub struct Done<K> {
    pub follower: K,
    pub message: Bytes,
}

/// The thread that reads for followers `K`.
pub type Server<K> = Worker<Job<K>, Done<K>>;

/// Starts the thread.
///
/// # Errors
/// The system has no thread left.
pub fn start<K: Copy + Eq + Hash + Send + 'static>(
    env: &Env,
    place: Place,
    (limits, chunk_bytes): (Limits, usize),
    waker: Waker,
) -> io::Result<Server<K>> {
    let chunk_bytes = chunk_bytes.min(MAX_CHUNK_BYTES);
    let reading = || {
        let setup = Setup { env: env.clone(), place: place.clone(), limits, chunk_bytes };
        let mut readers: HashMap<K, LogReader> = HashMap::new();
        move |job: Job<K>| {
            let message = setup.respond(&mut readers, &job);
            let text = |error: LogError| message::error(format!("os: {error}").as_bytes());
            Done { follower: job.follower, message: message.unwrap_or_else(text) }
        }
    };
    Worker::start(&*env.spawner, "followers", (1, false), waker, reading)
}

struct Setup {
    env: Env,
    place: Place,
    limits: Limits,
    chunk_bytes: usize,
}

impl Setup {
    fn respond<K: Copy + Eq + Hash>(
        &self,
        readers: &mut HashMap<K, LogReader>,
        job: &Job<K>,
    ) -> Result<Bytes, LogError> {
        let encoded = match &job.what {
            What::Greet(greeted) => {
                let place = &self.place;
                let dates = place.dates(&*self.env.disk).map_err(LogError::io(&place.dir, "list"))?;
                let greeted = Greeted { dates, ..greeted.clone() };
                message::message(MessageKind::Response, |writer| greeted.put(writer))
            }
            What::Sums(offsets) => {
                let sums = log::prefix_sums(&*self.env.disk, &job.log, offsets)?;
                message::message(MessageKind::Response, |writer| put_sums(writer, &sums))
            }
            What::Read(read) => {
                let reader = match readers.remove(&job.follower).filter(|reader| reader.path() == job.log.path()) {
                    Some(reader) => reader,
                    None => LogReader::of(&self.env, &job.log, self.limits, self.chunk_bytes)?,
                };
                let (told, reader) = self.read(reader, &job.log, read)?;
                if readers.len() >= OPEN_READERS {
                    readers.clear();
                }
                readers.insert(job.follower, reader);
                told.encode()
            }
        };
        Ok(encoded.unwrap_or_else(|error| message::error(format!("limit: {error}").as_bytes())))
    }

    fn read(&self, mut reader: LogReader, source: &LogSource, read: &Read) -> Result<(Told, LogReader), LogError> {
        let Read { ask, epoch, until, is_thorough } = read;
        if reader.position() != ask.next {
            reader.seek(ask.next)?;
        }
        let (data, records) = match reader.next_chunk(self.chunk_bytes, until.unwrap_or(u64::MAX))? {
            Next::Chunk(chunk) => (chunk.bytes.to_vec(), chunk.ends.len() as u64),
            Next::NotYet => (Vec::new(), 0),
        };
        let reached = ask.next.saturating_add(records);
        let is_ended = until.is_none() && records == 0;
        // Behind the tip, the queue's journal would be that of updates that the follower does not have.
        let is_at_tip = until.map_or(records == 0, |until| until <= reached);
        let files = Beside::ALL.into_iter().zip(ask.held);
        // A log without the file of the publishers is one without their numbers: it comes before the first of them.
        let wanted = files.filter(|(file, held)| is_at_tip || (*file == Beside::Publishers && held.bytes == 0));
        let pieces = self.pieces(source.path(), wanted, *is_thorough || is_ended);
        let next_day = |dates: Vec<i32>| dates.into_iter().find(|date| *date > ask.date);
        let then = if is_ended { self.place.dates(&*self.env.disk).ok().and_then(next_day) } else { None };
        let blocks = log::blocks_from(&*self.env.disk, source, ask.proved, ask.bytes, MAX_BLOCKS);
        let tip = until.unwrap_or(reached);
        Ok((Told { epoch: *epoch, tip, records, data, blocks, pieces, then }, reader))
    }

    /// Returns what the follower lacks of the files beside the log.
    fn pieces(&self, log: &Path, files: impl Iterator<Item = (Beside, Held)>, is_thorough: bool) -> Vec<Piece> {
        let piece = |(file, held)| {
            let path = self.place.beside(file, log);
            piece(&*self.env.disk, &path, held, is_thorough).unwrap_or_else(|error| {
                tracing::debug!(path = %path.display(), %error, "cannot read for a follower");
                None
            })
        };
        files.filter_map(|of| piece(of).map(|(from, bytes)| Piece { file: of.0, from, bytes })).collect()
    }
}

/// Returns the bytes of a file that a follower lacks, and where they belong; `None` if it has all.
fn piece(disk: &dyn Disk, path: &Path, held: Held, is_thorough: bool) -> io::Result<Option<(u64, Vec<u8>)>> {
    let file = match disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let size = file.size_bytes()?;
    if size > MAX_BESIDE_BYTES {
        return Err(io::Error::other(format!("{size} bytes are more than a follower copies")));
    }
    if size == held.bytes && !is_thorough {
        return Ok(None);
    }
    let bytes = log::whole(&*file)?;
    let known = usize::try_from(held.bytes).ok().and_then(|known| bytes.split_at_checked(known));
    Ok(match known {
        Some((same, [])) if crc32c::crc32c(same) == held.crc => None,
        Some((same, more)) if crc32c::crc32c(same) == held.crc => Some((held.bytes, more.to_vec())),
        _ => Some((0, bytes)),
    })
}
