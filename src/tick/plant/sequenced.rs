//! Updates with sequence numbers of their publishers (`tick::publishers`).

use super::Plant;
use super::calls::Called;
use crate::config::Limit;
use crate::log::Sequence;
use crate::metrics;
use crate::net::{ConnId, Links, message};
use crate::q::QError;
use crate::tick::core::sequenced::Sequenced;
use crate::tick::core::{self, Accepted, Call, Reason, Refusal, Rules};
use crate::tick::publishers::{Caller, Fault, Freshness, Last, Standing};
use crate::tick::sequence_state::Restored;
use proto::{MessageKind, View, Writer};

/// What became of an update with a number.
pub(super) enum Numbered {
    Logged(Accepted),
    /// It is in the log already; with its index if that is known.
    Duplicate(Option<u64>),
}

fn refused(call: &Call<'_>, fault: &Fault) -> Refusal {
    Refusal { table: call.table.to_vec(), reason: Reason::Sequence { term: fault.term(), text: fault.to_string() } }
}

impl Plant {
    /// Accepts an update with a number. A sync publisher gets its index as the response, once it is as durable as promised.
    pub fn answer_sequenced(&mut self, conn: ConnId, sequenced: &Sequenced<'_>, ctl: &mut dyn Links) {
        let updated = self.update_sequenced(conn, sequenced, ctl);
        let Some(request) = ctl.request() else { return };
        let index = match updated {
            Ok(index) => index.map_or(proto::types::NULL_LONG, u64::cast_signed),
            Err(refusal) => return self.respond(request, message::error(refusal.to_string().as_bytes()), ctl),
        };
        match message::message(MessageKind::Response, |writer| writer.atom_long(index)) {
            Ok(answer) => self.acknowledge_later(request, answer),
            Err(error) => ctl.reply(request, message::error(error.to_string().as_bytes())),
        }
    }

    /// Accepts an update with a number, unless the log has it already.
    ///
    /// # Errors
    /// Why the update is rejected.
    pub(super) fn publish_numbered(
        &mut self,
        conn: ConnId,
        call: &Call<'_>,
        (publisher, seq): (&[u8], i64),
        ctl: &dyn Links,
    ) -> Result<Numbered, Refusal> {
        if self.sequences.is_none() {
            return Err(refused(call, &Fault::NoLog));
        }
        let (user, is_operator) = match ctl.peer(conn) {
            Some(peer) => (peer.user.as_slice(), peer.grants.operator),
            None => (&[][..], false),
        };
        let freshness = self.publishers.freshness(publisher, seq, Caller { conn, user, is_operator });
        match freshness.map_err(|fault| refused(call, &fault))? {
            Freshness::Duplicate(index) => Ok(Numbered::Duplicate(index)),
            Freshness::New => self.log_numbered(call, (publisher, seq)).map(Numbered::Logged),
        }
    }

    /// Publishes a rejected update again that has a number: under that number if it is free, so that its publisher cannot add it a second
    /// time. The update with `id` is in the quarantine.
    ///
    /// # Errors
    /// An update with that number has been accepted since; why the update is rejected.
    pub(super) fn retry_numbered(
        &mut self,
        call: &Call<'_>,
        id: u64,
        (publisher, seq): (&[u8], i64),
        user: &[u8],
    ) -> Result<Accepted, Refusal> {
        if self.sequences.is_none() {
            return Err(refused(call, &Fault::NoLog));
        }
        let standing = self.publishers.standing(publisher, seq, user).map_err(|fault| refused(call, &fault))?;
        let is_marked = self.quarantine.is_accepted(id) || self.accepted_since.contains(&id);
        if is_marked || standing == Standing::Taken {
            let publisher = publisher.escape_ascii();
            let text = format!(
                "an update of {publisher} with the number {seq} was accepted after this one was rejected: this one is not published, \
                 so that its rows are not in the log twice; .u.discard removes it"
            );
            return Err(Refusal { table: call.table.to_vec(), reason: Reason::Sequence { term: "seq", text } });
        }
        if standing == Standing::Free {
            return match self.queue.has_counting_members() {
                true => Err(refused(call, &Fault::Counted)),
                false => self.log_numbered(call, (publisher, seq)),
            };
        }
        // A number below the publisher's last: whatever it sends with this number is a duplicate.
        let accepted = self.log_plain(call)?;
        self.accepted_since.extend(self.quarantine.with_number(publisher, seq));
        Ok(accepted)
    }

    /// Adds an update and its number to the batch.
    ///
    /// # Errors
    /// Why the update is rejected.
    fn log_numbered(&mut self, call: &Call<'_>, (publisher, seq): (&[u8], i64)) -> Result<Accepted, Refusal> {
        let Some(state) = &mut self.sequences else { return Err(refused(call, &Fault::NoLog)) };
        if !state.exists() {
            // Before the first number is logged: a start reads logs for numbers only where this file exists.
            let at = (self.time.date(), self.batch.first_index());
            if let Err(error) = state.save(&*self.env.disk, at, &self.publishers) {
                // A later number must not be accepted before the publisher knows that this one was not.
                self.publishers.release(publisher);
                let text = format!("cannot write the file of the publishers' sequence numbers: {error}");
                return Err(Refusal { table: call.table.to_vec(), reason: Reason::Sequence { term: "io", text } });
            }
        }
        // An operator may publish under the id of another user, who remains its owner.
        let user = self.publishers.owner(publisher).unwrap_or_default();
        let sequence = Sequence { user, publisher, seq };
        let (tables, stamp) = (self.schemas.tables(), self.time.stamp());
        let rules = Rules { limits: &self.codec, coerce: self.coerce };
        let accepted = core::publish_sequenced(tables, (call, &sequence), stamp, rules, &mut self.batch)?;
        let next = self.batch.tip();
        let index = (accepted.update.rows > 0).then(|| next.saturating_sub(1));
        self.publishers.accepted(publisher, Last { seq, index }, next);
        self.accepted_since.extend(self.quarantine.with_number(publisher, seq));
        Ok(accepted)
    }

    /// `.u.seq[publisher]`: writes the last sequence number accepted, null if there is none, and gives the id to the connection. The response
    /// is sent once that update is as durable as promised.
    ///
    /// # Errors
    /// The id is not the user's, or exceeds a limit; the log cannot be written.
    pub(super) fn last_sequence(
        &mut self,
        args: &[View<'_>],
        conn: ConnId,
        writer: &mut Writer<'_>,
        ctl: &mut dyn Links,
    ) -> Result<Called, QError> {
        let error = |fault: &Fault| QError::with(fault.term(), fault.to_string());
        if self.sequences.is_none() {
            return Err(error(&Fault::NoLog));
        }
        let publisher = args.first().and_then(View::text).ok_or_else(|| error(&Fault::Null))?;
        if self.queue.has_counting_members() {
            return Err(error(&Fault::Counted));
        }
        self.settle(ctl);
        // Under durability `none` the last update may be in a buffer.
        if let Err(failed) = self.log.flush() {
            self.fail(&failed, ctl);
        }
        if let Some(failure) = self.log.failure() {
            return Err(QError::with("io", failure));
        }
        let (user, is_operator) = match ctl.peer(conn) {
            Some(peer) => (peer.user.as_slice(), peer.grants.operator),
            None => (&[][..], false),
        };
        let held = self.publishers.hold(publisher, Caller { conn, user, is_operator });
        let last = held.map_err(|fault| {
            match fault {
                Fault::TooMany { .. } => metrics::refused(Limit::publishers),
                Fault::TooLong { .. } => metrics::refused(Limit::publisher_id_bytes),
                _ => {}
            }
            error(&fault)
        })?;
        writer.atom_long(last.unwrap_or(proto::types::NULL_LONG));
        Ok(Called::PutWhenDurable)
    }

    /// The day has ended, and its log is on disk: the new day begins with the numbers accepted so far.
    pub(super) fn save_sequences_of_new_day(&mut self, date: crate::queue::Date) {
        let Some(state) = self.sequences.as_mut().filter(|state| state.exists()) else { return };
        self.publishers.new_day();
        let mut restored = Restored::new(&mut self.publishers, &mut self.quarantine);
        let read = state.read_today(&self.env, (date, self.log.tip()), &mut restored);
        let accepted = restored.accepted;
        let saved = state.save(&*self.env.disk, (date, 0), &self.publishers);
        if let Err(error) = read.map_err(std::io::Error::other).and(saved) {
            // The earlier file still tells from where to read.
            tracing::error!(%error, "cannot save the publishers' sequence numbers at the end of the day");
        }
        self.keep_accepted(accepted);
    }

    /// The tickerplant ends, and everything is on disk: the next start need not read today's log.
    pub(super) fn save_sequences(&mut self) {
        let Some(state) = self.sequences.as_mut().filter(|state| state.exists()) else { return };
        let saved = self.log.sync().map_err(std::io::Error::other);
        let at = (self.time.date(), self.log.tip());
        if let Err(error) = saved.and_then(|()| state.save(&*self.env.disk, at, &self.publishers)) {
            tracing::warn!(%error, "cannot save the publishers' sequence numbers; the next start reads them from the log");
        }
    }
}
