//! Expressions of clients and the timer's: they run on query threads, and the event loop performs their calls of `.u`.

use super::TickService;
use crate::audit::Ticket;
use crate::config::Limit;
use crate::metrics;
use crate::net::account::HeldBytes;
use crate::net::shares::Share;
use crate::net::{ConnId, Links, SyncRequest, message, outbox_crowds, outbox_refuses};
use crate::q::{self, QError};
use crate::table::symbol;
use crate::tick::evaluation::{Calls, Done, From, Outcome, Query, Work, query_refused};
use crate::tick::plant::calls::{Called, Caller};
use crate::tick::plant::permit::OWNER;
use crate::tick::plant::variables::Names;
use crate::tick::record::{Call, Expected, Performed};
use crate::tick::sends::Sends;
use crate::tick::users::Space;
use bytes::Bytes;
use proto::{Endian, View, Writer};
use std::sync::Arc;
use std::time::Instant;

impl TickService {
    /// Evaluates an expression on a query thread.
    pub(super) fn query(&mut self, view: &View<'_>, caller: Caller, ctl: &mut dyn Links) {
        let Some(peer) = ctl.peer(caller.conn).cloned() else { return };
        self.plant.stats.queries = self.plant.stats.queries.wrapping_add(1);
        let ticket = match self.audit_query(view, caller.conn, ctl) {
            Ok(ticket) => ticket,
            Err(error) => return self.failed(&error, caller, ctl),
        };
        if self.names_variable(view, caller, ctl) {
            return ticket.into_iter().for_each(|ticket| ticket.end(None, 0));
        }
        let who = q::Caller {
            handle: caller.conn.handle(),
            user: peer.user.clone(),
            address: peer.z_a(),
            tls: peer.z_e(),
            remote: true,
            ..q::Caller::default()
        };
        let share = match self.shares.take(&peer) {
            Ok(share) => share,
            Err(error) => {
                ticket.into_iter().for_each(|ticket| ticket.end(Some(error.to_string()), 0));
                return self.failed(&error, caller, ctl);
            }
        };
        let Some(held) = self.pending.hold(view.raw().len() as u64) else {
            metrics::refused(Limit::pending_bytes);
            let why = self.pending.refusal();
            ticket.into_iter().for_each(|ticket| ticket.end(Some(format!("limit: {why}")), 0));
            return match caller.request {
                Some(request) => ctl.reply(request, message::error(format!("limit: {why}").as_bytes())),
                None => ctl.close(caller.conn, &why),
            };
        };
        let object = view.raw().to_vec();
        let included = Names::likely(&object);
        let Some(space) = self.users.of(caller.conn) else { return };
        let from = From { conn: caller.conn, request: caller.request, peer };
        // Pause the connection, so that its next message sees the effect of this one.
        ctl.pause(caller.conn);
        let accounts = (Some(held), Some(share), ticket);
        self.submit(Some(from), accounts, Work::Message(object), (who, space), included, ctl);
    }

    /// Responds to a text that only names variables.
    fn names_variable(&mut self, view: &View<'_>, caller: Caller, ctl: &mut dyn Links) -> bool {
        let (Some(text), Some(request)) = (view.chars(), caller.request) else { return false };
        if self.gate.has_handler(true) || self.rules.allowed.is_some() {
            return false;
        }
        self.plant.begin_iteration(ctl);
        self.plant.settle(ctl);
        let mut object = Vec::new();
        let mut writer = Writer::new(&mut object);
        if !self.plant.put_named(text, ctl, &mut writer) || writer.finish().is_err() {
            return false;
        }
        self.answer(Called::Put, &object, Some(request), ctl);
        true
    }

    fn submit(
        &mut self,
        from: Option<From>,
        (held, share, ticket): (Option<HeldBytes>, Option<Share>, Option<Ticket>),
        work: Work,
        (who, space): (q::Caller, Space),
        included: Names,
        ctl: &mut dyn Links,
    ) {
        let tables = Arc::clone(self.plant.tables());
        let mut query = Query::new(from, work, who, Arc::clone(&self.connections), tables);
        (query.included, query.held, query.space) = (included, held, space);
        (query.share, query.ticket) = (share, ticket);
        self.restart(query, ctl);
    }

    /// Runs a query on the variables as they are now.
    fn restart(&mut self, mut query: Query, ctl: &mut dyn Links) {
        self.plant.begin_iteration(ctl);
        self.plant.settle(ctl);
        query.variables = Arc::new(self.plant.variables(query.included, query.reader(), ctl));
        self.evaluate(query, ctl);
    }

    /// Hands a query to the query threads, for its user: users take turns.
    fn evaluate(&mut self, query: Query, ctl: &mut dyn Links) {
        if query.is_abandoned() {
            return self.finish(query, Outcome::abandoned(), ctl);
        }
        let user = query.from.as_ref().map(|from| from.peer.user.clone()).unwrap_or_default();
        self.queries.submit_for(&user, query);
    }

    /// Removes the queries of connections whose clients have left, if they have not begun.
    pub(super) fn withdraw_abandoned(&mut self, ctl: &mut dyn Links) {
        for query in self.queries.withdraw(Query::is_abandoned) {
            self.finish(query, Outcome::abandoned(), ctl);
        }
    }

    /// Takes the results of the query threads.
    pub(super) fn queries_done(&mut self, ctl: &mut dyn Links) {
        while let Some(done) = self.queries.result() {
            match done {
                Done::Result(query, outcome) => self.finish(query, outcome, ctl),
                Done::Calls(calls) => self.calling.push_back(*calls),
                Done::Lacks(mut query, names) => {
                    query.included = query.included.and(names);
                    self.restart(query, ctl);
                }
            }
        }
    }

    /// Performs the calls of queries, as many as one iteration may.
    pub(super) fn perform(&mut self, ctl: &mut dyn Links) {
        let mut left = usize::try_from(self.plant.limits.core_calls).unwrap_or(usize::MAX).max(1);
        while let Some(calls) = self.calling.pop_front() {
            if left == 0 {
                metrics::refused(Limit::core_calls);
                self.calling.push_front(calls);
                return (self.waker)();
            }
            if let Some(rest) = self.perform_some(calls, &mut left, ctl) {
                self.calling.push_front(rest);
            }
        }
    }

    /// Performs up to `left` calls of a query. Returns it if others are left.
    fn perform_some(&mut self, mut calls: Calls, left: &mut usize, ctl: &mut dyn Links) -> Option<Calls> {
        let conn = calls.query.from.as_ref().map(|from| from.conn);
        if conn.is_some_and(|conn| ctl.peer(conn).is_none()) {
            // The client is gone, and a subscription would outlive it.
            return None;
        }
        if !calls.is_begun {
            calls = self.begin(calls, ctl)?;
        }
        while *left > 0 {
            let Some(Expected { call, result: expected }) = calls.expected.pop_front() else { break };
            *left = left.saturating_sub(1);
            self.plant.begin_iteration(ctl);
            let result = self.perform_one(&call, &mut calls.query, ctl);
            if !matches!(&result, Ok(result) if *result == expected) {
                // The expression has continued with another result: its later calls may be others.
                calls.may_stand = false;
                calls.expected.clear();
            }
            let is_last = calls.expected.is_empty();
            let needed = !calls.may_stand && (calls.read_after || is_last);
            let after = needed.then(|| {
                self.plant.settle(ctl);
                Arc::new(self.plant.variables(calls.query.included, calls.query.reader(), ctl))
            });
            calls.query.record.push(Performed { call, result, after });
        }
        if !calls.expected.is_empty() {
            return Some(calls);
        }
        let Calls { query, may_stand, is_over, outcome, .. } = calls;
        match may_stand || is_over {
            true => self.finish(query, outcome, ctl),
            false => self.evaluate(query, ctl),
        }
        None
    }

    /// Prepares a query's calls. Returns `None` if it has to run again before, because variables that it has read have changed.
    fn begin(&mut self, mut calls: Calls, ctl: &mut dyn Links) -> Option<Calls> {
        self.plant.begin_iteration(ctl);
        self.plant.settle(ctl);
        let query = &mut calls.query;
        query.record.truncate(calls.repeats);
        let is_first = query.record.is_empty();
        if is_first {
            let now = Arc::new(self.plant.variables(query.included, query.reader(), ctl));
            let is_same = now.agree(&query.variables, calls.read_before);
            query.variables = now;
            let made: Vec<Call> = calls.expected.iter().map(|expected| expected.call.clone()).collect();
            // Calls that depend on variables are performed once two runs have made the same ones.
            if !is_same && made != query.last_calls && !calls.is_over {
                query.last_calls = made;
                self.evaluate(calls.query, ctl);
                return None;
            }
            calls.may_stand &= is_same;
        }
        calls.may_stand &= is_first && !calls.read_after;
        calls.is_begun = true;
        if let Some(from) = &calls.query.from {
            ctl.hold(from.conn);
        }
        Some(calls)
    }

    /// Performs one call.
    fn perform_one(&mut self, call: &Call, query: &mut Query, ctl: &mut dyn Links) -> Result<Vec<u8>, QError> {
        let mut object = Vec::new();
        let mut writer = Writer::new(&mut object);
        match call {
            Call::Function { name, arguments } => {
                let parsed: Result<Vec<_>, _> =
                    arguments.iter().map(|object| View::parse(object, Endian::Little, &self.codec)).collect();
                let parsed = parsed.map_err(|error| QError::with("limit", error.to_string()))?;
                let arguments: Vec<_> = parsed.into_iter().map(|(view, _)| view).collect();
                let conn = query.from.as_ref().map_or(OWNER, |from| from.conn);
                let caller = Caller { conn, request: None };
                let called = self.audited_call(symbol::text(*name), &arguments, caller, &mut writer, ctl)?;
                if symbol::text(*name) == proto::log::SCHEMA {
                    self.globals.show_tables(self.plant.tables());
                }
                query.published |= called == Called::PutWhenDurable;
                if called == Called::Answered {
                    writer.null();
                }
            }
            Call::Respond { handle, is_own, answer } => {
                // An earlier message of the same client with a response still due is answered first.
                let own = query.from.as_ref().and_then(|from| from.request).filter(|_| *is_own && !query.answered);
                let earlier = self.deferred.take(*handle);
                query.answered |= earlier.is_none() && own.is_some();
                let unexpected = || QError::signal(format!("Handle {handle} was not expecting a response msg"));
                query.answers.push((earlier.or(own).ok_or_else(unexpected)?, answer.clone()));
                writer.null();
            }
        }
        writer.finish().map_err(|error| QError::with("type", error.to_string()))?;
        Ok(object)
    }

    /// Sends the messages and the response of an evaluation.
    fn finish(&mut self, query: Query, outcome: Outcome, ctl: &mut dyn Links) {
        let Query { from, published, answers, answered, space, ticket, .. } = query;
        if !self.users.is_open(space) {
            self.globals.forget(space);
        }
        let Outcome { answer, error, sends: Sends { messages, deferred, .. } } = outcome;
        if let Some(ticket) = ticket {
            ticket.end(error.as_ref().map(ToString::to_string), answer.len());
        }
        if let Some(error) = &error {
            query_refused(error, Limit::query_time_ns);
        }
        let own = from.as_ref().map(|from| from.conn);
        for (conn, message) in messages {
            self.send(conn, message, own, ctl);
        }
        for (request, answer) in answers {
            ctl.reply(request, answer);
        }
        let Some(From { conn, request, .. }) = from else {
            if let Some(timer) = &mut self.timer {
                timer.next = ctl.now().checked_add(timer.every);
            }
            if let Some(error) = error {
                tracing::warn!(%error, ".z.ts failed");
            }
            return;
        };
        match request {
            // The response is already sent, so a later error has no receiver.
            _ if answered => self.answered(conn, None, answer, error, ctl),
            Some(request) if deferred && error.is_none() => self.deferred.insert(request),
            Some(request) if published && error.is_none() => self.plant.acknowledge_later(request, answer),
            None if published && error.is_none() => {}
            _ => self.answered(conn, request, answer, error, ctl),
        }
        ctl.release(conn);
        ctl.resume(conn);
    }

    /// Sends a message of an evaluation to a client, ahead of what is held back for its caller; closes the connection if its send buffer
    /// is over the limit.
    fn send(&mut self, conn: ConnId, message: Bytes, own: Option<ConnId>, ctl: &mut dyn Links) {
        let Some(peer) = ctl.peer(conn).cloned() else { return };
        let (waiting, all) = (ctl.outbox_bytes(conn), ctl.outboxes_bytes());
        let of_user = outbox_crowds(ctl.is_user_full(conn), waiting, message.len());
        if let Some(limit) = outbox_refuses(&self.plant.limits, waiting, all, message.len()).or(of_user) {
            metrics::refused(limit);
            return ctl.close(conn, "it does not read the messages sent to it");
        }
        let message = message::for_peer(message, &peer);
        match own == Some(conn) {
            true => ctl.send_first(conn, message),
            false => ctl.send(conn, message),
        }
    }

    /// Calls `.z.ts` if it is due.
    pub(super) fn tick(&mut self, ctl: &mut dyn Links) {
        let Some(timer) = &mut self.timer else { return };
        if timer.next.is_none_or(|at| at > Instant::now()) {
            return;
        }
        timer.next = None;
        let work = Work::Timer(timer.function.clone());
        let who = (q::Caller::default(), Space::SHARED);
        self.submit(None, (None, None, None), work, who, Names::likely(b""), ctl);
    }

    fn answered(
        &mut self,
        conn: ConnId,
        request: Option<SyncRequest>,
        answer: Bytes,
        error: Option<QError>,
        ctl: &mut dyn Links,
    ) {
        if let Some(error) = &error {
            self.plant.stats.query_errors = self.plant.stats.query_errors.wrapping_add(1);
            match request {
                None => tracing::warn!(handle = conn.handle(), %error, "an async message failed"),
                Some(_) => {
                    tracing::debug!(handle = conn.handle(), %error, "a query failed");
                    self.plant.note_denied(error, conn, ctl);
                }
            }
        }
        match request {
            Some(request) if error.is_some() => self.plant.respond(request, answer, ctl),
            Some(request) => ctl.reply(request, answer),
            None => {}
        }
    }
}
