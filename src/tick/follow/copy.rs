//! The copy itself: writes what the leader sends, proves it, and requests more.

use super::ended::Ended;
use super::joining::FIRST;
use super::serve::{MAX_BESIDE_BYTES, Place};
use super::status::SharedStatus;
use crate::env::{Disk, Open};
use crate::log::{self, LogError, LogOptions, LogWriter};
use crate::net::client::ClientError;
use crate::protocol::follow::{Ask, Beside, Held, Piece, Told};
use crate::queue::Date;
use crate::tick::clock::{civil_date, day_number};
use crate::tick::sequence_state;
use bytes::Bytes;
use std::io;
use std::path::Path;
use std::time::Instant;

/// How long the leader may wait for updates before it responds.
const WAIT_MS: u64 = 1_000;

/// A copy under way.
pub(super) struct Copy<'a> {
    options: &'a LogOptions,
    place: &'a Place,
    log: &'a mut LogWriter,
    /// Epoch of the leader.
    epoch: u64,
    /// The leader's blocks before this offset agree with the own log.
    proved: u64,
    held: [Held; 3],
    status: &'a SharedStatus,
}

impl<'a> Copy<'a> {
    pub fn new(
        options: &'a LogOptions,
        place: &'a Place,
        log: &'a mut LogWriter,
        epoch: u64,
        status: &'a SharedStatus,
    ) -> Copy<'a> {
        // The checksum of the whole log has proved what is there.
        let proved = log.written_bytes();
        let mut copy = Copy { options, place, log, epoch, proved, held: [Held::default(); 3], status };
        copy.look();
        copy
    }

    fn disk(&self) -> &dyn Disk {
        &*self.options.env.disk
    }

    /// Looks at the files beside the log.
    fn look(&mut self) {
        let held = |file: Beside| {
            let bytes = contents(self.disk(), &self.place.beside(file, self.log.path())).unwrap_or_default();
            Held { bytes: bytes.len() as u64, crc: crc32c::crc32c(&bytes) }
        };
        self.held = Beside::ALL.map(held);
    }

    /// Encodes the next call, which confirms what is in the log.
    ///
    /// # Errors
    /// The log has lost updates, or its path leads elsewhere: what is confirmed could not be opened at a take-over.
    pub fn ask(&mut self) -> Result<Bytes, Ended> {
        self.log.check()?;
        if let Some(reason) = self.log.elsewhere() {
            let path = self.log.path().to_path_buf();
            return Err(Ended::Broken(LogError::Lost { path, reason }));
        }
        let ask = Ask {
            date: day_number(self.log.date()).0,
            next: self.log.tip(),
            durable: self.log.durable_tip(),
            bytes: self.log.written_bytes(),
            proved: self.proved,
            held: self.held,
            wait_ms: WAIT_MS,
        };
        Ok(ask.encode().map_err(ClientError::from)?)
    }

    /// Takes a response. Returns the day that has begun, if one has.
    ///
    /// # Errors
    /// The leader's bytes are no records, or its log or epoch is another one; the own log cannot be written.
    pub fn take(&mut self, told: Told) -> Result<Option<Date>, Ended> {
        if told.epoch != self.epoch {
            return Err(Ended::Lost(format!("its epoch is {} now", told.epoch)));
        }
        if !told.data.is_empty() {
            let lengths = log::whole_records(&told.data, &self.options.limits);
            if lengths.iter().sum::<usize>() != told.data.len() || lengths.len() as u64 != told.records {
                let next = self.log.tip();
                return Err(Ended::Refused(format!(
                    "what it sent from update {next} on is damaged, and was not copied"
                )));
            }
            if told.pieces.iter().any(|piece| piece.file == Beside::Publishers) {
                self.await_numbers()?;
            }
            self.log.append(&told.data, told.records)?;
            self.log.sync()?;
        }
        for block in &told.blocks {
            if !self.log.has(block)? {
                let (first, end) = (block.offset_bytes, block.offset_bytes.saturating_add(block.length_bytes));
                return Err(Ended::Refused(format!(
                    "the bytes {first} to {end} of {} have another checksum than when the leader wrote them: compare both with elastick log \
                     verify",
                    self.log.path().display()
                )));
            }
            self.proved = block.offset_bytes.saturating_add(block.length_bytes);
        }
        for piece in &told.pieces {
            self.put(piece)?;
        }
        let tip = self.log.durable_tip();
        self.status.change(|status| {
            (status.tip, status.leader_tip) = (Some(tip), told.tip);
            if tip >= told.tip {
                status.complete_at = Some(Instant::now());
            }
        });
        match told.then {
            Some(date) if told.records == 0 && Date(date) > day_number(self.log.date()) => {
                self.roll(Date(date)).map(Some)
            }
            Some(date) if told.records == 0 => {
                let (after, own) = (civil_date(Date(date)), self.log.date());
                Err(Ended::Refused(format!("it has {after} after {own}")))
            }
            _ => Ok(None),
        }
    }

    fn roll(&mut self, date: Date) -> Result<Date, Ended> {
        tracing::info!(updates = self.log.tip(), "the leader's day has ended");
        self.log.roll(civil_date(date), |_| Ok(()))?;
        self.proved = FIRST.offset_bytes;
        self.look();
        Ok(date)
    }

    /// The leader's publishers have numbers, perhaps in what is about to be copied. A start reads them only if their file is there, and the leader's
    /// is not taken before this log has reached it.
    fn await_numbers(&self) -> Result<(), Ended> {
        let path = self.place.beside(Beside::Publishers, self.log.path());
        if self.disk().open(&path, Open::Read).is_ok() {
            return Ok(());
        }
        let written = sequence_state::begin(self.disk(), &path, day_number(self.log.date()));
        Ok(written.map_err(LogError::io(&path, "write"))?)
    }

    /// Takes a part of a file beside the log.
    fn put(&mut self, piece: &Piece) -> Result<(), Ended> {
        let path = self.place.beside(piece.file, self.log.path());
        let wrong = || Ended::Refused(format!("it sent a part of {} that fits nowhere", path.display()));
        let mut bytes = contents(self.disk(), &path).unwrap_or_default();
        let from = usize::try_from(piece.from).ok().filter(|from| *from <= bytes.len()).ok_or_else(wrong)?;
        if piece.from.saturating_add(piece.bytes.len() as u64) > MAX_BESIDE_BYTES {
            return Err(Ended::Refused(format!("{} would exceed {MAX_BESIDE_BYTES} bytes", path.display())));
        }
        bytes.truncate(from);
        bytes.extend_from_slice(&piece.bytes);
        if piece.file == Beside::Publishers {
            let position = sequence_state::position(&bytes, &self.options.limits);
            let own = (day_number(self.log.date()), self.log.tip());
            // The leader's numbers are ahead of this log: with them, updates that it lacks would count as duplicates.
            if position.is_none_or(|position| position > own) {
                self.await_numbers()?;
                self.look();
                return Ok(());
            }
        }
        let written = match piece.from {
            0 => log::replace(self.disk(), &path, &bytes),
            _ => append(self.disk(), &path, piece),
        };
        written.map_err(LogError::io(&path, "write"))?;
        let held = Held { bytes: bytes.len() as u64, crc: crc32c::crc32c(&bytes) };
        let own = Beside::ALL.iter().zip(&mut self.held).find(|(file, _)| **file == piece.file);
        own.into_iter().for_each(|(_, own)| *own = held);
        Ok(())
    }
}

fn append(disk: &dyn Disk, path: &Path, piece: &Piece) -> io::Result<()> {
    let file = disk.open(path, Open::Write)?;
    file.truncate(piece.from)?;
    log::write_all(&*file, &piece.bytes, piece.from)
}

fn contents(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Open::Read)?;
    log::whole(&*file)
}
