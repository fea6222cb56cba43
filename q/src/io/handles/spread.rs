//! Requests that are spread over the connections of several processes, for `peach` with `.z.pd`.

use super::{Handles, Open, Peer, Reply, unknown};
use crate::runtime::error::QError;
use columns::table::Value;
use std::time::{Duration, Instant};

/// Pause after a look at all connections that found nothing: it doubles from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// A connection taken from the table, which gets it back on drop.
struct Worker<'a> {
    table: &'a Handles,
    number: i32,
    open: Option<Open>,
    /// The request that it works on.
    busy: Option<usize>,
    /// It has sent something other than a response.
    is_lost: bool,
}

impl Worker<'_> {
    fn peer(&mut self) -> Result<&mut dyn Peer, QError> {
        match &mut self.open {
            Some(Open::Peer(peer)) => Ok(&mut **peer),
            _ => Err(unknown(i64::from(self.number))),
        }
    }

    /// Returns the response to the request that it works on, if it has arrived.
    fn poll(&mut self) -> Result<Option<Value>, QError> {
        match self.peer()?.poll()? {
            None => Ok(None),
            Some(Reply::Response(value)) => Ok(Some(value)),
            Some(Reply::Message(_)) => {
                self.is_lost = true;
                Err(QError::with("close", format!("handle {} sent something other than a response", self.number)))
            }
        }
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        if self.busy.is_some() {
            // Its late response is not that of the next request.
            let given_up = self.peer().and_then(|peer| peer.reply(Some(Instant::now())));
            self.is_lost |= matches!(given_up, Ok(Reply::Message(_)));
        }
        if let Some(open) = self.open.take() {
            self.table.put(self.number, open);
        }
        if self.is_lost {
            // Ends as if the worker had closed the connection: `.z.pc` is called with the handle.
            self.table.cut(self.number);
        }
    }
}

impl Handles {
    /// Sends requests `0..count` to processes, the next one to whichever has answered, and returns the responses in the order of the requests.
    /// `check` is called while it waits.
    ///
    /// # Errors
    /// The first error that a process returns; those of `check`; `close` for a process that sends anything but responses, whose
    /// connection is closed. The requests that are under way are given up.
    pub(crate) fn spread(
        &self,
        handles: &[i32],
        count: usize,
        request: &dyn Fn(usize) -> Value,
        check: &dyn Fn() -> Result<(), QError>,
        by: Option<Instant>,
    ) -> Result<Vec<Value>, QError> {
        let mut workers = Vec::with_capacity(handles.len().min(count));
        for number in handles.iter().take(count) {
            if self.socket(*number).is_none() {
                return Err(unknown(i64::from(*number)));
            }
            let open = Some(self.take(*number, by)?);
            workers.push(Worker { table: self, number: *number, open, busy: None, is_lost: false });
        }
        let mut responses = vec![None; count];
        let (mut next, mut pause) = (0, FIRST_PAUSE);
        loop {
            let mut has_moved = false;
            for worker in &mut workers {
                if let Some(item) = worker.busy {
                    let polled = worker.poll();
                    if !matches!(polled, Ok(None)) {
                        worker.busy = None;
                    }
                    let Some(response) = polled? else { continue };
                    if let Some(slot) = responses.get_mut(item) {
                        *slot = Some(response);
                    }
                    has_moved = true;
                }
                if next < count {
                    let at_once = worker.peer()?.request(&request(next), by)?;
                    match (at_once, responses.get_mut(next)) {
                        (Some(response), Some(slot)) => *slot = Some(response),
                        _ => worker.busy = Some(next),
                    }
                    next += 1;
                    has_moved = true;
                }
            }
            if next >= count && workers.iter().all(|worker| worker.busy.is_none()) {
                return responses.into_iter().collect::<Option<Vec<Value>>>().ok_or(QError::named("close"));
            }
            check()?;
            if has_moved {
                pause = FIRST_PAUSE;
            } else {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}
