//! The tickerplant log: a kdb+ log that `-11!` replays, plus a side file with the checksums, indices and epochs that a kdb+ log lacks.
//!
//! [`LogWriter`] is the single writer of a day's log. [`LogReader`] reads any log from any update on, also while it grows. [`Proof`] is the
//! checksum and counts of a window. `README.md` beside this file has the layouts and what each durability survives.

mod active;
mod appender;
mod blocks;
mod buffer;
mod contender;
pub mod days;
mod error;
mod fence;
mod file;
mod fork;
mod group;
mod holder;
mod identity;
mod index;
mod lock;
pub mod moment;
mod name;
mod next;
mod open;
mod prefix;
mod proof;
mod reader;
mod rebuild;
mod record;
pub mod repair;
pub mod retention;
mod scan;
mod sequence;
pub mod show;
mod slice;
mod source;
mod survey;
mod watch;
mod writer;

#[cfg(test)]
mod tests;

pub use active::Active;
pub use blocks::damaged_in;
pub use contender::Contender;
pub use error::LogError;
pub use file::{replace, whole, write_all, write_at_point};
pub use fork::{cut_back, record_ends, set_aside, synced_and_gone, whole_records};
pub use identity::{LogId, MAX_SAMPLES, Remembered, Sample, WriterId};
pub use lock::MAX_ADDRESS_BYTES;
pub use name::{date_of, handle, log_path, logs_between, queue_path, side_path};
pub use open::{Cut, OpenReport};
pub use prefix::{block_ends, blocks_from, prefix_sums};
pub use proof::{Keep, Proof, TableProof, columns_of, mix64, update_hash, window_proof};
pub use reader::{Chunk, LogReader, Next, Reads, parts};
pub use rebuild::{Rebuilt, rebuild};
pub use record::{Fault, FaultKind};
pub use scan::{DamagedRange, Mark};
pub use sequence::{Sequence, SequenceScan, is_sequence, set_hash};
pub use slice::{Copied, SliceError, different, join, slice};
pub use source::LogSource;
pub use survey::{SideState, Survey, TableSummary, survey};
pub use writer::{Locked, LogOptions, LogWriter, Waker};
