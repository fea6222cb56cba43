//! One record of the audit log, and its line of JSON.

use jiff::Timestamp;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write;
use std::net::IpAddr;

/// Who makes a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// As given in the handshake.
    pub user: Vec<u8>,
    /// `None` for the process itself. A Unix socket has the address 0.0.0.0.
    pub address: Option<IpAddr>,
    /// The handle, as `.z.w` shows it.
    pub handle: Option<i32>,
    /// Subject of the verified client certificate.
    pub certificate: Option<String>,
}

/// What a call was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Function, or `query`, `page`, `websocket`, `login`, `logout`, `lockout`, `reload`.
    pub name: Cow<'static, str>,
    /// Text or hash of the query.
    pub shown: Shown,
    /// Tables that it names.
    pub tables: Vec<String>,
    /// Length of the message.
    pub bytes_in: u64,
}

impl Call {
    pub fn named(name: impl Into<Cow<'static, str>>) -> Call {
        Call { name: name.into(), ..Call::default() }
    }
}

/// A query as it is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    #[default]
    None,
    Text {
        text: String,
        is_cut: bool,
    },
    /// SHA-256 in hexadecimal.
    Hash(String),
}

/// Updates of one table that a connection has published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    pub updates: u64,
    pub rows: u64,
    pub bytes: u64,
    /// Index of the first and of the last update.
    pub first: u64,
    pub last: u64,
}

/// A record, before it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// When the call began; `None` in a record that is made while it is written.
    pub at: Option<Timestamp>,
    pub who: Who,
    pub call: Call,
    pub published: Option<Published>,
    pub bytes_out: Option<u64>,
    pub duration_ns: Option<u64>,
    /// The error; empty for a call that succeeded.
    pub error: String,
    /// Records that were dropped before this one.
    pub missing: Option<u64>,
}

impl Entry {
    /// A record that begins now.
    pub fn new(who: Who, call: Call) -> Entry {
        Entry { at: Some(Timestamp::now()), who, call, ..Entry::default() }
    }

    /// The same, as failed.
    #[must_use]
    pub fn failed(self, error: impl Into<String>) -> Entry {
        Entry { error: error.into(), ..self }
    }
}

/// The line, in the order of its fields.
#[derive(Serialize)]
struct Line<'a> {
    n: u64,
    time: String,
    process: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<&'a str>,
    call: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tables: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    updates: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_in: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_out: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<u64>,
    outcome: &'a str,
}

/// Returns bytes of a peer as text: as they are if they are UTF-8, otherwise with `\x` escapes.
pub fn readable(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) => text.to_string(),
        Err(_) => bytes.escape_ascii().to_string(),
    }
}

/// Appends a record as one line of ASCII. `n` numbers the records of a process.
pub(super) fn put(entry: &Entry, n: u64, process: &str, out: &mut String) {
    let at = entry.at.unwrap_or_else(Timestamp::now);
    let (text, is_cut, sha256) = match &entry.call.shown {
        Shown::None => (None, false, None),
        Shown::Text { text, is_cut } => (Some(text.as_str()), *is_cut, None),
        Shown::Hash(hash) => (None, false, Some(hash.as_str())),
    };
    let published = entry.published;
    let line = Line {
        n,
        time: format!("{at:.9}"),
        process,
        user: entry.who.address.map(|_| readable(&entry.who.user)),
        address: entry.who.address,
        handle: entry.who.handle,
        certificate: entry.who.certificate.as_deref(),
        call: &entry.call.name,
        text,
        cut: is_cut.then_some(true),
        sha256,
        tables: &entry.call.tables,
        updates: published.map(|published| published.updates),
        rows: published.map(|published| published.rows),
        first: published.map(|published| published.first),
        last: published.map(|published| published.last),
        bytes_in: published.map(|published| published.bytes).or(Some(entry.call.bytes_in).filter(|bytes| *bytes > 0)),
        bytes_out: entry.bytes_out,
        duration_ns: entry.duration_ns,
        missing: entry.missing,
        outcome: if entry.error.is_empty() { "ok" } else { &entry.error },
    };
    // A structure of texts and numbers can always be written.
    put_ascii(&serde_json::to_string(&line).unwrap_or_default(), out);
    out.push('\n');
}

/// Appends JSON with everything outside printable ASCII escaped: a terminal that shows the file obeys C1 controls and marks of direction,
/// which JSON allows. Such characters can only be inside strings.
fn put_ascii(json: &str, out: &mut String) {
    for char in json.chars() {
        if char.is_ascii() && char != '\x7f' {
            out.push(char);
            continue;
        }
        for unit in char.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn line(entry: &Entry) -> String {
        let mut out = String::new();
        put(entry, 7, "tick", &mut out);
        out
    }

    #[test]
    fn a_record_is_one_line_of_ascii_whatever_a_client_sends() {
        for hostile in [
            "\n{\"n\":8,\"call\":\"login\",\"outcome\":\"ok\"}\n",
            "a\r\u{85}\u{2028}b",
            "\u{1b}[2J\u{9b}2J\u{7f}\u{202e}",
            "\",\"outcome\":\"ok",
            "\0😀",
        ] {
            let shown = Shown::Text { text: hostile.to_string(), is_cut: false };
            let who = Who {
                user: hostile.as_bytes().to_vec(),
                address: Some([127, 0, 0, 1].into()),
                certificate: Some(hostile.to_string()),
                ..Who::default()
            };
            let call = Call { shown, tables: vec![hostile.to_string()], ..Call::named("query") };
            let text = line(&Entry::new(who, call).failed(hostile));
            assert!(
                text.ends_with('\n') && text.trim_end_matches('\n').bytes().all(|byte| (b' '..=b'~').contains(&byte))
            );
            let read: Value = serde_json::from_str(&text).expect("JSON");
            for field in ["user", "certificate", "text", "outcome"] {
                assert_eq!(read[field], hostile, "{field}");
            }
            assert_eq!(read["n"], 7);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_escaped() {
        assert_eq!(readable(b"ann\xff\n"), "ann\\xff\\n");
        assert_eq!(readable("Zoë".as_bytes()), "Zoë");
    }

    #[test]
    fn what_is_unknown_is_left_out() {
        let text = line(&Entry { missing: Some(3), ..Entry::default() });
        let read: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read["missing"], 3);
        assert!(read.get("user").is_none() && read.get("handle").is_none() && read.get("rows").is_none());
        assert_eq!(read["outcome"], "ok");
        let time = read["time"].as_str().expect("a time");
        assert_eq!(time.len(), "2026-11-24T03:55:10.123456789Z".len());
    }
}
