//! `.u.state[]`: which of several tickerplants with one log is active.

use super::parts::{put_samples, sampled};
use super::{long, names};
use crate::log::{LogId, Sample};
use crate::net::client::{Client, ClientError};
use proto::{Value, Writer, types};
use std::time::Duration;

/// Whether a tickerplant accepts updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    Active,
    /// It waits for the lease, or copies the log of the active one, and refuses everything else.
    #[default]
    Passive,
}

impl Standing {
    pub const fn name(self) -> &'static str {
        match self {
            Standing::Active => "active",
            Standing::Passive => "passive",
        }
    }
}

/// The answer, a dictionary. Empty texts and null numbers stand for what is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TickState {
    pub role: Standing,
    /// URL of the lease; empty without one.
    pub lease: String,
    /// Epoch of the active tickerplant.
    pub epoch: Option<u64>,
    /// Updates in the log of the day; a passive tickerplant reads the side file, which is some updates behind.
    pub tip: Option<u64>,
    /// Where the active tickerplant is reached, `HOST:PORT`.
    pub active: String,
    /// Process and host of the active tickerplant, in words.
    pub process: String,
    /// Of a copy of the log: updates that it lacks, as far as is known.
    pub lag: Option<u64>,
    /// For how long it has lacked any, or has not heard of the active tickerplant, in nanoseconds.
    pub late_ns: Option<i64>,
    /// What was cut off from its log, or why it has not handed over.
    pub note: String,
    pub record: LeaseState,
    /// The log of an active tickerplant.
    pub log: Option<LogState>,
}

/// Which log a tickerplant writes, so that a client of several notices one that writes another log, or fewer updates of the same one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// Identity of the directory's logs.
    pub id: Option<LogId>,
    /// Updates in the log of the day when this epoch began.
    pub began: Option<u64>,
    /// By which a reader knows the file.
    pub samples: Vec<Sample>,
}

/// Asks a tickerplant for its role. One without `.u.state`, such as kdb+tick, or that does not let this user call it, counts as active.
///
/// # Errors
/// `NoneActive` if it is passive; otherwise the connection's.
pub fn check_active(client: &mut Client) -> Result<(), ClientError> {
    match client.request(&Value::list([Value::symbol(names::STATE), Value::NULL])) {
        Ok(state) => passive(&state).map_or(Ok(()), |why| Err(ClientError::NoneActive(why))),
        Err(ClientError::Server(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// As [`check_active`], for a client that also wants an active tickerplant that cannot log now, because its disk is full: it counts as passive, but
/// refuses no calls as such.
///
/// # Errors
/// As [`check_active`].
pub fn check_serving(client: &mut Client) -> Result<(), ClientError> {
    let why = match check_active(client) {
        Err(ClientError::NoneActive(why)) => why,
        checked => return checked,
    };
    match client.query(".u.i") {
        Err(error) if error.is_of_passive() => Err(ClientError::NoneActive(why)),
        Ok(_) | Err(ClientError::Server(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns in words that the tickerplant with this state is passive, if it is.
fn passive(state: &Value) -> Option<String> {
    let text = |key: &str| state.lookup(key)?.as_text().map(|text| String::from_utf8_lossy(text).into_owned());
    text("role").filter(|role| role == Standing::Passive.name())?;
    Some(match text("active").filter(|active| !active.is_empty()) {
        Some(active) => format!("it is passive: {active} is active"),
        None => "it is passive, and no other one is known to be active".to_string(),
    })
}

/// What the store of the lease says; empty for the lock of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseState {
    /// Name of the owner in the store.
    pub owner: String,
    /// Name of this process in the store.
    pub name: String,
    /// Time since the owner's last renewal, as far as this process knows.
    pub renewed: Option<Duration>,
    /// What endangers the lease or keeps this process from it.
    pub trouble: String,
}

const KEYS: [&str; 16] = [
    "role", "lease", "epoch", "tip", "active", "process", "owner", "renewed", "trouble", "lag", "late", "note", "name",
    "log", "began", "samples",
];

impl TickState {
    pub fn put(&self, writer: &mut Writer<'_>) {
        writer.dict_head();
        writer.symbols(KEYS);
        writer.list_head(KEYS.len());
        writer.symbol(self.role.name());
        writer.chars(&self.lease);
        for number in [self.epoch, self.tip] {
            writer.atom_long(number.map_or(types::NULL_LONG, long));
        }
        writer.chars(&self.active);
        writer.chars(&self.process);
        writer.chars(&self.record.owner);
        let renewed = self.record.renewed.and_then(|age| i64::try_from(age.as_nanos()).ok());
        writer.atom_timespan(renewed.unwrap_or(types::NULL_LONG));
        writer.chars(&self.record.trouble);
        writer.atom_long(self.lag.map_or(types::NULL_LONG, long));
        writer.atom_timespan(self.late_ns.unwrap_or(types::NULL_LONG));
        writer.chars(&self.note);
        writer.chars(&self.record.name);
        let LogState { id, began, samples } = self.log.clone().unwrap_or_default();
        writer.chars(id.map(|id| id.to_string()).unwrap_or_default());
        writer.atom_long(began.map_or(types::NULL_LONG, long));
        put_samples(writer, &samples);
    }
}

impl TickState {
    /// Reads a state as [`TickState::put`] writes it, also one of a version with fewer keys. `None` if it is not one.
    pub fn read(state: &Value) -> Option<TickState> {
        let text = |key: &str| state.lookup(key)?.as_text().map(|text| String::from_utf8_lossy(text).into_owned());
        let number = |key: &str| u64::try_from(state.lookup(key)?.as_long()?).ok();
        let time = |key: &str| match state.lookup(key)? {
            Value::Timespan(ns) if ns >= 0 => Some(ns),
            _ => None,
        };
        let role = text("role")?;
        let log = text("log").filter(|id| !id.is_empty()).map(|id| LogState {
            id: id.parse().ok(),
            began: number("began"),
            samples: state.lookup("samples").and_then(|words| sampled(words.as_longs()?)).unwrap_or_default(),
        });
        Some(TickState {
            role: [Standing::Active, Standing::Passive].into_iter().find(|standing| standing.name() == role)?,
            lease: text("lease")?,
            epoch: number("epoch"),
            tip: number("tip"),
            active: text("active")?,
            process: text("process")?,
            lag: number("lag"),
            late_ns: time("late"),
            note: text("note").unwrap_or_default(),
            log,
            record: LeaseState {
                owner: text("owner").unwrap_or_default(),
                name: text("name").unwrap_or_default(),
                renewed: time("renewed").and_then(|ns| u64::try_from(ns).ok()).map(Duration::from_nanos),
                trouble: text("trouble").unwrap_or_default(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::{Endian, Limits, decode};

    fn sent(state: &TickState) -> Value {
        let mut object = Vec::new();
        let mut writer = Writer::new(&mut object);
        state.put(&mut writer);
        writer.finish().expect("it is small");
        decode::object(&object, Endian::Little, &Limits::default()).expect("it is whole").0
    }

    fn words(role: Standing, active: &str) -> Option<String> {
        passive(&sent(&TickState { role, active: active.to_string(), ..TickState::default() }))
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let text = |text: &str| text.to_string();
        let record = LeaseState {
            owner: text("tp1:5010/1"),
            name: text("tp2:5010/2"),
            renewed: Some(Duration::from_millis(300)),
            trouble: text("slow"),
        };
        let whole = TickState {
            role: Standing::Passive,
            lease: text("file:"),
            epoch: Some(7),
            tip: Some(0),
            active: text("tp1:5010"),
            process: text("process 5"),
            lag: Some(3),
            late_ns: Some(9),
            note: text("cut"),
            record,
            log: Some(LogState {
                id: Some(LogId(0xfe)),
                began: Some(5),
                samples: vec![Sample { offset_bytes: 8, length_bytes: 5, crc: u32::MAX }],
            }),
        };
        for state in [TickState::default(), whole] {
            assert_eq!(TickState::read(&sent(&state)), Some(state));
        }
        assert_eq!(TickState::read(&Value::NULL), None);
    }

    #[test]
    fn a_client_learns_from_the_state_whether_it_is_passive() {
        assert_eq!(words(Standing::Active, "tp1:5010"), None);
        assert_eq!(words(Standing::Passive, "tp1:5010").as_deref(), Some("it is passive: tp1:5010 is active"));
        assert!(words(Standing::Passive, "").is_some_and(|words| words.contains("no other one")));
        assert_eq!(passive(&Value::NULL), None);
    }
}
