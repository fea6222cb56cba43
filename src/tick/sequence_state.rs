//! Sequence numbers of publishers over restarts: `DIR/SRC.publishers`, and the records of the logs since it was written.
//!
//! The logs are the truth: each number is a record right before its update. The file bounds what a start has to read. It says from which update
//! of which day's log on numbers must be read, and which numbers were accepted before. It exists before the first number is logged, so that a
//! directory without it needs no reading at all. It is replaced at every end of a day, and when the tickerplant ends in order.

use super::clock::civil_date;
use super::publishers::{Last, PublisherLimits, Publishers};
use super::quarantine::Quarantine;
use crate::env::{Disk, Env, Open};
use crate::log::{self, LogError, LogReader, Next, Sequence, SequenceScan};
use crate::queue::Date;
use proto::{Endian, Limits, View, Writer};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// First bytes of a kdb+ file: `get` reads it as a dictionary.
const FILE_HEAD: &[u8] = &[0xff, 0x01];
const KEYS: [&str; 5] = ["date", "index", "publisher", "user", "seq"];

/// How to read logs.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub limits: Limits,
    pub chunk_bytes: usize,
}

/// The file beside the logs.
#[derive(Debug)]
pub struct SequenceState {
    dir: PathBuf,
    src: String,
    reading: Reading,
    /// Whether the file exists, and so the logs may have sequence numbers.
    exists: bool,
}

/// What the sequence numbers in the logs restore.
pub struct Restored<'a, K> {
    pub publishers: &'a mut Publishers<K>,
    /// Learns which of its updates were accepted when their publishers sent them again.
    pub quarantine: &'a mut Quarantine,
    /// Ids of the updates that it did not know to be accepted.
    pub accepted: Vec<u64>,
}

impl<'a, K: Copy + Eq> Restored<'a, K> {
    pub fn new(publishers: &'a mut Publishers<K>, quarantine: &'a mut Quarantine) -> Restored<'a, K> {
        Restored { publishers, quarantine, accepted: Vec::new() }
    }

    fn take(&mut self, sequence: &Sequence<'_>, index: Option<u64>) {
        let Sequence { user, publisher, seq } = *sequence;
        self.publishers.restore(publisher, user, Last { seq, index });
        let ids: Vec<u64> = self.quarantine.with_number(publisher, seq).collect();
        self.accepted.extend(self.quarantine.mark_accepted(ids));
    }
}

/// From which update on the logs must be read.
struct Saved {
    date: Date,
    index: u64,
}

impl SequenceState {
    /// Restores all numbers; `today`: the day and the number of updates in its log.
    ///
    /// # Errors
    /// The file, or today's log, cannot be read.
    pub fn open<K: Copy + Eq>(
        env: &Env,
        (dir, src): (&Path, &str),
        reading: Reading,
        today: (Date, u64),
        restored: &mut Restored<'_, K>,
    ) -> Result<SequenceState, LogError> {
        let mut state = SequenceState { dir: dir.to_path_buf(), src: src.to_string(), reading, exists: false };
        let path = state.path();
        let file = match env.disk.open(&path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(state),
            Err(error) => return Err(LogError::io(&path, "open")(error)),
        };
        let bytes = log::whole(&*file).map_err(LogError::io(&path, "read"))?;
        let invalid = || LogError::io(&path, "read")(io::Error::other("not a dictionary of publishers"));
        let saved = decode(&bytes, &reading.limits, restored.publishers).ok_or_else(invalid)?;
        state.exists = true;
        state.read_earlier(env, &saved, today.0, restored);
        let is_read = saved.date == today.0 && saved.index == today.1;
        if !is_read {
            state.read_today(env, today, restored)?;
        }
        tracing::info!(publishers = restored.publishers.len(), "sequence numbers of publishers restored");
        Ok(state)
    }

    fn path(&self) -> PathBuf {
        path(&self.dir, &self.src)
    }

    fn log_of(&self, date: Date) -> PathBuf {
        log::log_path(&self.dir, &self.src, civil_date(date))
    }

    /// Whether the logs may have sequence numbers.
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// Reads the logs between the saved position and today. One that cannot be read holds up nothing: its numbers are reported as missing.
    fn read_earlier<K: Copy + Eq>(&self, env: &Env, saved: &Saved, today: Date, restored: &mut Restored<'_, K>) {
        if saved.date >= today {
            return;
        }
        let (first, last) = (self.log_of(saved.date), self.log_of(today));
        let between = match log::logs_between(&*env.disk, &first, &last) {
            Ok(logs) => logs,
            Err(error) => {
                tracing::error!(%error, "cannot list the logs since the sequence numbers were saved");
                Vec::new()
            }
        };
        let all = std::iter::once((first, saved.index)).chain(between.into_iter().map(|path| (path, 0)));
        for (path, from) in all {
            if let Err(error) = self.read_log(env, &path, from, restored) {
                tracing::error!(
                    log = %path.display(), %error,
                    "cannot read the publishers' sequence numbers: updates that this log has may be accepted again"
                );
            }
        }
        restored.publishers.new_day();
    }

    /// Reads a log of an ended day.
    fn read_log<K: Copy + Eq>(
        &self,
        env: &Env,
        path: &Path,
        from: u64,
        restored: &mut Restored<'_, K>,
    ) -> Result<(), LogError> {
        let Reading { limits, chunk_bytes } = self.reading;
        let mut reader = LogReader::open(env, path, limits, chunk_bytes)?;
        if reader.seek(from).is_err() {
            // It has other indices than when the file was written, as after a repair.
            reader.seek(0)?;
        }
        let mut scan = SequenceScan::default();
        while let Next::Chunk(chunk) = reader.next_chunk(chunk_bytes, u64::MAX)? {
            take(&mut scan, chunk, restored);
        }
        Ok(())
    }

    /// Reads today's log.
    ///
    /// # Errors
    /// The log's.
    pub fn read_today<K: Copy + Eq>(
        &self,
        env: &Env,
        (date, tip): (Date, u64),
        restored: &mut Restored<'_, K>,
    ) -> Result<(), LogError> {
        if tip == 0 {
            return Ok(());
        }
        let Reading { limits, chunk_bytes } = self.reading;
        let mut reader = LogReader::open(env, &self.log_of(date), limits, chunk_bytes)?;
        let mut scan = SequenceScan::default();
        reader.replay(0..tip, chunk_bytes, env.clock.now(), |chunk| {
            take(&mut scan, chunk, restored);
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    /// Replaces the file, durably: the numbers of all updates before `index` of this day's log.
    ///
    /// # Errors
    /// The file system's.
    pub fn save<K: Copy + Eq>(
        &mut self,
        disk: &dyn Disk,
        (date, index): (Date, u64),
        publishers: &Publishers<K>,
    ) -> io::Result<()> {
        let bytes = encode(date, index, publishers).map_err(io::Error::other)?;
        log::replace(disk, &self.path(), &bytes)?;
        self.exists = true;
        Ok(())
    }
}

/// Path of the file of a source's publishers.
pub fn path(dir: &Path, src: &str) -> PathBuf {
    dir.join(format!("{src}.publishers"))
}

/// Writes a file without numbers, because of which a start reads all that are in the logs from this day on.
///
/// # Errors
/// The file system's.
pub fn begin(disk: &dyn Disk, path: &Path, date: Date) -> io::Result<()> {
    let none = Publishers::<u32>::new(PublisherLimits { ids: 0, id_bytes: 0 });
    let bytes = encode(date, 0, &none).map_err(io::Error::other)?;
    log::replace(disk, path, &bytes)
}

/// Returns up to which update of which day the numbers in such a file go.
pub fn position(bytes: &[u8], limits: &Limits) -> Option<(Date, u64)> {
    let unlimited = PublisherLimits { ids: usize::MAX, id_bytes: usize::MAX };
    let Saved { date, index } = decode(bytes, limits, &mut Publishers::<u32>::new(unlimited))?;
    Some((date, index))
}

fn take<K: Copy + Eq>(scan: &mut SequenceScan, chunk: log::Chunk<'_>, restored: &mut Restored<'_, K>) {
    for (index, record) in chunk.iter() {
        scan.take(index, record, &mut |sequence, index| restored.take(&sequence, index));
    }
}

fn encode<K: Copy + Eq>(date: Date, index: u64, publishers: &Publishers<K>) -> Result<Vec<u8>, proto::EncodeError> {
    let all: Vec<_> = publishers.accepted_from().collect();
    let mut bytes = FILE_HEAD.to_vec();
    let mut writer = Writer::new(&mut bytes);
    writer.dict_head();
    writer.symbols(KEYS);
    writer.list_head(KEYS.len());
    writer.atom_date(date.0);
    writer.atom_long(index.cast_signed());
    writer.symbols(all.iter().map(|(publisher, ..)| *publisher).collect::<Vec<_>>());
    writer.symbols(all.iter().map(|(_, owner, _)| *owner).collect::<Vec<_>>());
    writer.vector(proto::types::LONG, 0, &all.iter().map(|(.., last)| last.seq).collect::<Vec<i64>>());
    writer.finish()?;
    Ok(bytes)
}

fn decode<K: Copy + Eq>(bytes: &[u8], limits: &Limits, publishers: &mut Publishers<K>) -> Option<Saved> {
    let (view, _) = View::parse(bytes.strip_prefix(FILE_HEAD)?, Endian::Little, limits).ok()?;
    let dict = view.dict()?;
    if !dict.keys.vector()?.symbols().eq(KEYS.iter().map(|key| key.as_bytes())) {
        return None;
    }
    let values: Vec<View<'_>> = dict.values.list()?.iter().collect();
    let [date, index, ids, owners, seqs] = &values[..] else { return None };
    let saved = Saved { date: Date(date.atom()?), index: u64::try_from(index.atom::<i64>()?).ok()? };
    let (ids, owners, seqs) = (ids.vector()?, owners.vector()?, seqs.vector()?);
    for (at, (id, owner)) in ids.symbols().zip(owners.symbols()).enumerate() {
        publishers.restore(id, owner, Last { seq: seqs.get_i64(at)?, index: None });
    }
    Some(saved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Sequence, set_hash};
    use crate::tick::publishers::Caller;
    use crate::tick::quarantine::Refused;
    use crate::tick::quarantine::tests::refused;
    use std::sync::atomic::{AtomicU32, Ordering};

    const TODAY: Date = Date(9_821);

    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Folder {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let name = format!("elastick-sequences-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).expect("a folder");
            Folder(path)
        }

        /// Writes the log of a day with the numbered updates of `feed1`; returns the number of its records.
        fn log(&self, date: Date, numbers: std::ops::Range<i64>) -> u64 {
            let mut bytes = proto::log::FILE_HEAD.to_vec();
            for seq in numbers.clone() {
                let (mut columns, mut record) = (Vec::new(), Vec::new());
                Writer::new(&mut columns).vector(proto::types::LONG, 0, &[seq]);
                Sequence { user: b"ann", publisher: b"feed1", seq }.append(&mut record).expect("short names");
                set_hash(&mut record, &columns);
                bytes.append(&mut record);
                proto::log::write_record_head(b"trade", 1, &mut bytes);
                bytes.append(&mut columns);
            }
            std::fs::write(log::log_path(&self.0, "sym", civil_date(date)), bytes).expect("written");
            2 * numbers.count() as u64
        }

        fn open(&self, tip: u64, restored: &mut Restored<'_, u32>) -> Result<SequenceState, LogError> {
            let reading = Reading { limits: Limits::default(), chunk_bytes: 256 };
            SequenceState::open(&Env::system(), (&self.0, "sym"), reading, (TODAY, tip), restored)
        }

        /// The last number and index that a start restores.
        fn restored(&self, tip: u64) -> (SequenceState, Option<Last>) {
            let mut publishers = publishers();
            let state = self.open(tip, &mut Restored::new(&mut publishers, &mut quarantine()));
            let last = publishers.accepted_from().map(|(id, owner, last)| {
                assert_eq!((id, owner), (&b"feed1"[..], &b"ann"[..]));
                last
            });
            let last = last.last();
            (state.expect("readable"), last)
        }

        fn save(&self, date: Date, index: u64, seq: Option<i64>) {
            let (mut state, mut publishers) = (self.restored(0).0, publishers());
            if let Some(seq) = seq {
                publishers.restore(b"feed1", b"ann", Last { seq, index: None });
            }
            state.save(&*Env::system().disk, (date, index), &publishers).expect("written");
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn publishers() -> Publishers<u32> {
        Publishers::new(PublisherLimits { ids: 10, id_bytes: 64 })
    }

    fn quarantine() -> Quarantine {
        Quarantine::new(10, 1 << 20)
    }

    #[test]
    fn logs_are_read_only_where_the_file_exists() {
        let folder = Folder::new();
        let tip = folder.log(TODAY, 0..5);
        let (state, last) = folder.restored(tip);
        assert_eq!((state.exists(), last), (false, None));
        folder.save(TODAY, 0, None);
        let (state, last) = folder.restored(tip);
        assert_eq!((state.exists(), last), (true, Some(Last { seq: 4, index: Some(9) })));
    }

    #[test]
    fn after_an_orderly_end_nothing_is_read() {
        let folder = Folder::new();
        let tip = folder.log(TODAY, 0..5);
        // A number that the log does not have shows that the log was not read.
        folder.save(TODAY, tip, Some(77));
        assert_eq!(folder.restored(tip).1, Some(Last { seq: 77, index: None }));
        // More was logged after it: all is read, and the highest number counts.
        let tip = folder.log(TODAY, 70..80);
        assert_eq!(folder.restored(tip).1, Some(Last { seq: 79, index: Some(19) }));
    }

    #[test]
    fn a_kill_between_two_days_loses_no_number() {
        let folder = Folder::new();
        folder.log(Date(TODAY.0 - 2), 0..5);
        folder.log(Date(TODAY.0 - 1), 5..9);
        folder.save(Date(TODAY.0 - 2), 4, Some(1));
        assert_eq!(folder.restored(0).1, Some(Last { seq: 8, index: None }), "from the days before");
        let tip = folder.log(TODAY, 9..12);
        assert_eq!(folder.restored(tip).1, Some(Last { seq: 11, index: Some(5) }));
        // A log with fewer updates than when the file was written, as after a repair, is read from its beginning.
        folder.log(Date(TODAY.0 - 2), 3..4);
        folder.save(Date(TODAY.0 - 2), 400, Some(1));
        assert_eq!(folder.restored(0).1, Some(Last { seq: 8, index: None }));
    }

    #[test]
    fn a_restored_id_keeps_its_owner() {
        let folder = Folder::new();
        folder.save(TODAY, 0, Some(5));
        let mut publishers = publishers();
        let state = folder.open(0, &mut Restored::new(&mut publishers, &mut quarantine()));
        assert!(state.is_ok_and(|state| state.exists()));
        assert!(publishers.hold(b"feed1", Caller { conn: 1, user: b"bob", is_operator: false }).is_err());
        assert_eq!(publishers.hold(b"feed1", Caller { conn: 1, user: b"ann", is_operator: false }), Ok(Some(5)));
    }

    #[test]
    fn another_file_is_an_error() {
        let folder = Folder::new();
        std::fs::write(folder.0.join("sym.publishers"), b"\xff\x01\x63").expect("written");
        assert!(folder.open(0, &mut Restored::new(&mut publishers(), &mut quarantine())).is_err());
    }

    #[test]
    fn rejected_updates_whose_numbers_the_logs_have_are_found() {
        let folder = Folder::new();
        folder.log(Date(TODAY.0 - 1), 5..9);
        folder.save(Date(TODAY.0 - 1), 0, Some(1));
        let tip = folder.log(TODAY, 9..12);
        let mut quarantine = quarantine();
        for number in [Some((b"feed1".to_vec(), 6)), Some((b"feed2".to_vec(), 6)), None, Some((b"feed1".to_vec(), 11))]
        {
            quarantine.add(Refused { number, ..refused(0, 1) });
        }
        quarantine.mark_accepted([3]);
        let mut publishers = publishers();
        let mut restored = Restored::new(&mut publishers, &mut quarantine);
        folder.open(tip, &mut restored).expect("readable");
        assert_eq!(restored.accepted, [0]);
        assert_eq!([0, 1, 2, 3].map(|id| quarantine.is_accepted(id)), [true, false, false, true]);
    }
}
