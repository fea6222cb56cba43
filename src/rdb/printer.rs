//! Stdout writer thread, so that a blocked reader of stdout never blocks a query.

use std::io::Write;
use std::sync::mpsc::{SyncSender, sync_channel};

/// Capacity of the queue; further output is dropped.
const MAX_WAITING: usize = 1024;

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
