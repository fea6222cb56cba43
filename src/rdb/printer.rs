//! What evaluations print, on a thread of its own: nobody waits for whoever reads it.

use std::io::Write;
use std::sync::mpsc::{SyncSender, sync_channel};

/// Texts that may wait. What comes while so many do is dropped.
const WAITING_MOST: usize = 1024;

/// Prints in the order in which it is told to.
#[derive(Clone, Debug)]
pub struct Printer(SyncSender<Vec<u8>>);

impl Printer {
    /// # Errors
    /// No thread can be had.
    pub fn start() -> std::io::Result<Printer> {
        let (texts, printed) = sync_channel::<Vec<u8>>(WAITING_MOST);
        crate::sys::stack::thread("printer".into()).spawn(move || {
            for text in printed {
                let mut out = std::io::stdout().lock();
                // Whoever reads may be gone; queries go on.
                let _ = out.write_all(&text).and_then(|()| out.flush());
            }
        })?;
        Ok(Printer(texts))
    }

    pub fn print(&self, text: Vec<u8>) {
        if !text.is_empty() {
            let _ = self.0.try_send(text);
        }
    }
}
