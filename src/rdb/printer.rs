//! Stdout writer thread, so that a blocked reader of stdout never blocks a query.

use crate::audit::readable;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::mpsc::{SyncSender, sync_channel};

/// Capacity of the queue; further output is dropped.
const MAX_WAITING: usize = 1024;

/// Returns the output of a client's evaluation as it is printed. Each line begins with `client`, and its control characters are escaped: what
/// a client prints cannot pass for a line of this process.
pub fn marked(text: &[u8], client: &str) -> Vec<u8> {
    match text.is_empty() {
        true => Vec::new(),
        false => mark(text, client).into_bytes(),
    }
}

fn mark(text: &[u8], mark: &str) -> String {
    let mut marked = String::new();
    for line in text.strip_suffix(b"\n").unwrap_or(text).split(|byte| *byte == b'\n') {
        marked.push_str(mark);
        for char in readable(line).chars() {
            match char {
                '\t' | '\\' | '"' | '\'' => marked.push(char),
                // Escapes what does not print, among it marks that reverse the direction of text.
                _ => write!(marked, "{}", char.escape_debug()).unwrap_or_default(),
            }
        }
        marked.push('\n');
    }
    marked
}

/// Handle to the writer thread; output keeps its order.
#[derive(Clone, Debug)]
pub struct Printer(SyncSender<Vec<u8>>);

impl Printer {
    /// # Errors
    /// The thread cannot start.
    pub fn start() -> std::io::Result<Printer> {
        let (texts, printed) = sync_channel::<Vec<u8>>(MAX_WAITING);
        crate::sys::stack::thread("printer".into()).spawn(move || {
            for text in printed {
                let mut out = std::io::stdout().lock();
                // Queries go on if the reader of stdout is gone.
                let _ = out.write_all(&text).and_then(|()| out.flush());
            }
        })?;
        Ok(Printer(texts))
    }

    /// Queues text for the writer thread; drops it if the queue is full.
    pub fn print(&self, text: Vec<u8>) {
        if !text.is_empty() {
            let _ = self.0.try_send(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_prints_cannot_pass_for_another_line() {
        let text = "a \"b\"\n2026-11-24T00:00:00Z ERROR forged\r\x1b[2K\u{202e}é\n".as_bytes();
        assert_eq!(
            mark(text, "client 7 ann@127.0.0.1: "),
            "client 7 ann@127.0.0.1: a \"b\"\n\
             client 7 ann@127.0.0.1: 2026-11-24T00:00:00Z ERROR forged\\r\\u{1b}[2K\\u{202e}é\n"
        );
    }
}
