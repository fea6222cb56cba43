//! Handles of a session: files that are written to and processes that are asked.

use super::error::QError;
use crate::table::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// A connection to another process, made by what knows sockets.
pub trait Peer: Send + Sync {
    /// Sends a message; with `wait` its answer comes back, else the generic null.
    ///
    /// # Errors
    /// The other process's error, or that the connection is gone.
    fn send(&mut self, message: &Value, wait: bool) -> Result<Value, QError>;

    /// The handle under which it is known from now on.
    fn known_as(&mut self, _handle: i32) {}
}

/// Opens a connection to `:host:port:user:password` within so many milliseconds, 0 for no limit.
pub type Connector = Arc<dyn Fn(&[u8], u64) -> Result<Box<dyn Peer>, QError> + Send + Sync>;

enum Open {
    File(std::fs::File),
    Peer(Box<dyn Peer>),
}

/// Open handles by number.
#[derive(Default)]
pub(super) struct Handles {
    open: BTreeMap<i32, Open>,
    connector: Option<Connector>,
}

/// Handles below this are the process's own streams.
const FIRST: i32 = 3;
/// Most handles of a session.
const MOST: usize = 1024;

impl Handles {
    pub(super) fn new(connector: Option<Connector>) -> Handles {
        Handles { open: BTreeMap::new(), connector }
    }

    pub(super) fn open(&mut self, target: &[u8], timeout_ms: u64) -> Result<i32, QError> {
        let address = target.strip_prefix(b":").unwrap_or(target);
        let number = self.free()?;
        let open = if is_process(address) {
            let connect =
                self.connector.as_ref().ok_or(QError::with("access", "other processes are not reached from here"))?;
            Open::Peer(connect(address, timeout_ms)?)
        } else {
            use std::os::unix::ffi::OsStrExt;
            let path = std::path::Path::new(std::ffi::OsStr::from_bytes(address));
            let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
            let words = |e: std::io::Error| e.to_string().split(" (os error").next().unwrap_or_default().to_owned();
            Open::File(
                file.map_err(|e| QError::signal(format!("{}. OS reports: {}", path.display(), words(e)).into_bytes()))?,
            )
        };
        Ok(self.insert(number, open))
    }

    /// Takes a connection that another process has opened.
    pub(super) fn adopt(&mut self, peer: Box<dyn Peer>) -> Result<i32, QError> {
        let number = self.free()?;
        Ok(self.insert(number, Open::Peer(peer)))
    }

    fn insert(&mut self, number: i32, mut open: Open) -> i32 {
        if let Open::Peer(peer) = &mut open {
            peer.known_as(number);
        }
        self.open.insert(number, open);
        number
    }

    /// The handles of other processes.
    pub(super) fn peers(&self) -> Vec<i32> {
        self.open.iter().filter(|(_, open)| matches!(open, Open::Peer(_))).map(|(number, _)| *number).collect()
    }

    fn free(&self) -> Result<i32, QError> {
        if self.open.len() >= MOST {
            return Err(QError::named("conn"));
        }
        Ok((FIRST..).find(|n| !self.open.contains_key(n)).unwrap_or(FIRST))
    }

    pub(super) fn close(&mut self, handle: i32) -> Result<(), QError> {
        self.open.remove(&handle).map(|_| ()).ok_or_else(|| unknown(i64::from(handle)))
    }

    pub(super) fn send(&mut self, handle: i64, message: &Value) -> Result<Value, QError> {
        let number = i32::try_from(handle.unsigned_abs()).unwrap_or(0);
        match self.open.get_mut(&number).ok_or_else(|| unknown(handle))? {
            Open::File(file) => {
                let mut out = Vec::new();
                let mut line = |text: &[u8]| {
                    out.extend_from_slice(text);
                    if handle < 0 {
                        out.push(b'\n');
                    }
                };
                match message {
                    Value::Vector(v) if matches!(v.items, crate::table::Items::Byte(_)) => {
                        if let crate::table::Raw::U8(bytes) = v.items.raw() {
                            line(bytes);
                        }
                    }
                    other => match other.as_text() {
                        Some(text) => line(text),
                        None => {
                            for text in other.items() {
                                line(text.as_text().ok_or(QError::named("type"))?);
                            }
                        }
                    },
                }
                file.write_all(&out).map_err(|e| QError::signal(e.to_string().into_bytes()))?;
                Ok(Value::Int(i32::try_from(handle).unwrap_or(0)))
            }
            Open::Peer(peer) => peer.send(message, handle > 0),
        }
    }
}

fn unknown(handle: i64) -> QError {
    QError::signal(format!("Cannot write to handle {handle}. OS reports: Bad file descriptor").into_bytes())
}

/// `host:port`, `:port`, `port`, `unix://port`, with user and password behind; anything else is a file.
fn is_process(address: &[u8]) -> bool {
    let digits = |t: &[u8]| !t.is_empty() && t.iter().all(u8::is_ascii_digit);
    let mut parts = address.split(|c| *c == b':');
    let first = parts.next().unwrap_or_default();
    digits(first) || address.starts_with(b"unix://") || parts.next().is_some_and(digits)
}
