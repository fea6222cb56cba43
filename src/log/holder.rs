//! Lines of the lock file: who holds the lock, in text with a checksum.

use crate::env::Disk;

/// Length of a line with its newline.
pub(in crate::log) const LINE_BYTES: usize = 160;
/// State word of a writer that has not yet compared the log with its side file, though the kernel may have lost parts of it.
const UNCHECKED: &str = "unchecked";
/// Prefix of the state word of a log that ended with an error; followed by the first update that may not be on disk.
const UNSYNCED: &str = "unsynced-";

/// Contents of a writer line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub epoch: u64,
    pub pid: u32,
    pub host: String,
    pub boot: String,
    /// The log was flushed, synced and closed.
    pub clean: bool,
    /// After an error: updates from this index on may be in the page cache but not on disk.
    pub unsynced_from: Option<u64>,
    /// The kernel may have lost writes of an earlier writer, and no start has accepted the log since. A start that is rejected or
    /// interrupted leaves the check to the next one.
    pub unchecked: bool,
}

impl Holder {
    /// Whether this holder replaced `other`: a higher epoch, or the same epoch taken by another process.
    pub(in crate::log) fn has_replaced(&self, other: &Holder) -> bool {
        let is_other = (self.pid, &self.host, &self.boot) != (other.pid, &other.host, &other.boot);
        self.epoch > other.epoch || (self.epoch == other.epoch && is_other)
    }

    pub(in crate::log) fn here(disk: &dyn Disk, epoch: u64) -> Holder {
        let who = disk.who();
        Holder {
            epoch,
            pid: who.pid,
            host: word(&who.host),
            boot: word(&who.boot),
            clean: false,
            unsynced_from: None,
            unchecked: false,
        }
    }

    pub(in crate::log) fn encode(&self) -> Vec<u8> {
        let state = match self.unsynced_from {
            Some(index) => format!("{UNSYNCED}{index}"),
            None if self.clean => "closed".to_string(),
            None if self.unchecked => UNCHECKED.to_string(),
            None => "open".to_string(),
        };
        let text = format!("epoch {} pid {} host {} boot {} {state}", self.epoch, self.pid, self.host, self.boot);
        seal(&text)
    }

    pub(in crate::log) fn decode(line: &[u8]) -> Option<Holder> {
        let text = unseal(line)?;
        let words: Vec<&str> = text.split(' ').collect();
        let ["epoch", epoch, "pid", pid, "host", host, "boot", boot, state] = words.as_slice() else { return None };
        Some(Holder {
            epoch: epoch.parse().ok()?,
            pid: pid.parse().ok()?,
            host: (*host).to_string(),
            boot: (*boot).to_string(),
            clean: *state == "closed",
            unsynced_from: state.strip_prefix(UNSYNCED).and_then(|index| index.parse().ok()),
            unchecked: *state == UNCHECKED,
        })
    }
}

/// Formats a line with its checksum.
pub(in crate::log) fn seal(text: &str) -> Vec<u8> {
    let crc = crc32c::crc32c(text.as_bytes());
    let mut line = format!("{text} crc {crc:08x}").into_bytes();
    line.resize(LINE_BYTES - 1, b' ');
    line.push(b'\n');
    line
}

/// Returns the text of a line if its checksum agrees.
pub(in crate::log) fn unseal(line: &[u8]) -> Option<&str> {
    let (text, crc) = std::str::from_utf8(line).ok()?.trim_end().rsplit_once(" crc ")?;
    (u32::from_str_radix(crc, 16).ok()? == crc32c::crc32c(text.as_bytes())).then_some(text)
}

/// One word, cleaned and cut to fit its place in a line.
fn word(text: &str) -> String {
    let word: String = text.trim().chars().filter(char::is_ascii_graphic).take(40).collect();
    if word.is_empty() { "?".to_string() } else { word }
}

pub(in crate::log) fn describe(holder: Option<&Holder>) -> String {
    match holder {
        Some(holder) => format!("process {} on {}, epoch {}", holder.pid, holder.host, holder.epoch),
        None => "its process id is not written yet".to_string(),
    }
}
