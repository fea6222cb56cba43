//! Compressed messages. Large ones are decompressed on threads, so that the event loop does not wait for them; meanwhile their connection
//! is not read.

use super::{Reactor, Service};
use crate::config::Limit;
use crate::net::ConnId;
use crate::net::account::HeldBytes;
use crate::sys::stack;
use mio::Waker;
use proto::{DecodeError, HEADER_BYTES, Header, Limits, compress};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Size up to which a message is decompressed on the event loop: passing it to a thread takes as long.
const INLINE_BYTES: u64 = 64 << 10;
/// Size up to which a message may have any ratio: a short one of equal bytes is no attack.
const ANY_RATIO_BYTES: u64 = 1 << 20;
/// Size of a message that a feed sends at most; larger ones have a thread of their own, so that those of feeds do not wait for them.
const SMALL_BYTES: u64 = 4 << 20;

/// A message to decompress.
struct Job {
    conn: ConnId,
    header: Header,
    message: Vec<u8>,
    held: HeldBytes,
}

/// A decompressed message, without its header.
struct Expanded {
    conn: ConnId,
    header: Header,
    body: Result<Vec<u8>, DecodeError>,
    held: HeldBytes,
}

/// Threads that decompress messages, started with the first.
pub(super) struct Expander {
    small: Sender<Job>,
    large: Sender<Job>,
    done: Receiver<Expanded>,
}

impl Expander {
    fn start(limits: Limits, waker: &Arc<Waker>) -> io::Result<Expander> {
        let (results, done) = channel();
        let thread = || {
            let (jobs, of_loop) = channel::<Job>();
            let (results, waker) = (results.clone(), Arc::clone(waker));
            stack::thread("decompress".into()).spawn(move || {
                for Job { conn, header, message, held } in of_loop {
                    let body = compress::decompress(&message, &limits).map(|mut plain| {
                        plain.drain(..HEADER_BYTES.min(plain.len()));
                        plain
                    });
                    if results.send(Expanded { conn, header, body, held }).is_err() {
                        return;
                    }
                    // An ended loop needs no wake-up.
                    let _ = waker.wake();
                }
            })?;
            io::Result::Ok(jobs)
        };
        Ok(Expander { small: thread()?, large: thread()?, done })
    }
}

impl<S: Service> Reactor<S> {
    /// Delivers a compressed message, now or when it is decompressed.
    pub(super) fn deliver_compressed(&mut self, conn: ConnId, header: &Header, message: &[u8]) {
        let limits = self.control.limits.codec();
        let bytes = match compress::expanded_bytes(message, &limits) {
            Ok(bytes) => bytes,
            Err(error) => return self.control.malformed(conn, error),
        };
        let ratio = self.control.limits.compression_ratio;
        if bytes > ANY_RATIO_BYTES.max(ratio.saturating_mul(message.len() as u64)) {
            let why = format!(
                "a message of {} bytes expands to {bytes}, more than {ratio} times (--limit-compression-ratio)",
                message.len()
            );
            return self.control.refuse(conn, Limit::compression_ratio, why);
        }
        if bytes <= INLINE_BYTES {
            return match compress::decompress(message, &limits) {
                Ok(plain) => {
                    let body = plain.get(HEADER_BYTES..).unwrap_or_default();
                    self.service.message(conn, header, body, &mut self.control);
                }
                Err(error) => self.control.malformed(conn, error),
            };
        }
        let account = &self.control.limits.pending;
        let Some(held) = account.hold(bytes.saturating_add(message.len() as u64)) else {
            let why = account.refusal();
            return self.control.refuse(conn, Limit::pending_bytes, why);
        };
        let job = Job { conn, header: *header, message: message.to_vec(), held };
        if let Err(error) = self.expand(job, bytes) {
            tracing::error!(%error, "cannot start a thread that decompresses messages");
            let why = "no thread to decompress the message".to_string();
            self.control.refuse(conn, Limit::pending_bytes, why);
        }
    }

    fn expand(&mut self, job: Job, bytes: u64) -> io::Result<()> {
        let expander = match &self.expander {
            Some(expander) => expander,
            None => {
                let limits = self.control.limits.codec();
                self.expander.insert(Expander::start(limits, &self.control.waker())?)
            }
        };
        let conn = job.conn;
        let request = self.control.request.take();
        let jobs = if bytes > SMALL_BYTES { &expander.large } else { &expander.small };
        jobs.send(job).map_err(|_| io::ErrorKind::BrokenPipe)?;
        if let Some(connection) = self.control.get_mut(conn) {
            connection.expanding = Some(request);
        }
        Ok(())
    }

    /// Delivers the messages that the threads have decompressed.
    pub(super) fn finish_expanding(&mut self) {
        while let Some(expanded) = self.expander.as_ref().and_then(|expander| expander.done.try_recv().ok()) {
            let Expanded { conn, header, body, held } = expanded;
            let Some(connection) = self.control.get_mut(conn) else { continue };
            let Some(request) = connection.expanding.take() else { continue };
            if connection.closing.is_some() {
                continue;
            }
            let _span = connection.span.clone().entered();
            self.control.request = request;
            match body {
                Ok(body) => self.service.owned_message(conn, &header, body, held, &mut self.control),
                Err(error) => self.control.malformed(conn, error),
            }
            self.control.request = None;
            self.control.go_on(conn);
        }
    }
}
