//! Order of the jobs: those of one connection run one after the other.

use super::Queries;
use crate::net::Control;
use crate::net::inbox::{Inbox, Message};
use crate::q::handlers::HandlerEvent;
use crate::rdb::pool::{Job, Line};
use proto::MessageKind;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Queries {
    /// Queues a job; jobs of one connection run in order.
    pub(super) fn push(&mut self, job: Job) {
        self.shared.queries_open.fetch_add(1, Ordering::SeqCst);
        if let Some(line) = job.line {
            if let Some(waiting) = self.busy.get_mut(&line) {
                return waiting.push_back(job);
            }
            self.busy.insert(line, VecDeque::new());
        }
        self.pool.push(job);
    }

    /// Starts the connection's next job, or resumes reading from it.
    pub(super) fn next_of(&mut self, line: Line, ctl: &mut Control) {
        if let Some(Some(job)) = self.busy.get_mut(&line).map(VecDeque::pop_front) {
            return self.pool.push(job);
        }
        self.busy.remove(&line);
        match line {
            Line::Client(conn) => {
                if ctl.peer(conn).is_none() {
                    self.scope.forget(line);
                }
                ctl.resume(conn);
                ctl.free_number(conn);
            }
            Line::Opened(handle) => {
                if let Some(inbox) = self.inboxes.remove(&handle) {
                    self.received(inbox, ctl);
                }
            }
        }
    }

    /// Handles a message on a connection opened by this process, or its end.
    pub(super) fn received(&mut self, inbox: Arc<Inbox>, ctl: &mut Control) {
        let handle = inbox.number();
        if handle == 0 || self.shared.is_ending() {
            return;
        }
        let line = Some(Line::Opened(handle));
        if self.busy.contains_key(&Line::Opened(handle)) {
            let is_gone = inbox.gone().is_set();
            self.inboxes.insert(handle, inbox);
            if is_gone {
                self.abandon(Line::Opened(handle), ctl);
            }
        } else if let Some(Message { kind, body, endian, answer }) = inbox.take() {
            let is_sync = kind == MessageKind::Sync;
            let gone = is_sync.then(|| inbox.gone().clone());
            self.inboxes.insert(handle, inbox);
            let event = HandlerEvent::Message { is_sync, body, endian };
            self.push(Job { answer: Some(answer), gone, ..Job::of(line, None, event) });
        } else if inbox.is_over() {
            inbox.set_number(0);
            // The process itself may have closed it meanwhile.
            let _ = self.scope.handles.close(handle);
            self.push(Job::of(line, None, HandlerEvent::Closed { web: false }));
        }
    }

    /// Ends a connection's sync queries that nobody waits for any more: those queued behind the running job are removed, and so is that one if it has
    /// not begun.
    pub(super) fn abandon(&mut self, line: Line, ctl: &mut Control) {
        let Some(waiting) = self.busy.get_mut(&line) else { return };
        let (abandoned, kept): (VecDeque<Job>, VecDeque<Job>) =
            std::mem::take(waiting).into_iter().partition(Job::is_abandoned);
        *waiting = kept;
        for job in abandoned {
            self.shared.queries_open.fetch_sub(1, Ordering::SeqCst);
            let done = self.pool.abandoned(job);
            self.deliver(done, ctl);
        }
        for done in self.pool.abandon(line) {
            self.finished(done, ctl);
        }
    }
}
