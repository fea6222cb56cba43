//! `.u.retry` and `.u.discard`: what becomes of rejected updates.

use super::Plant;
use crate::access::Grants;
use crate::net::{ConnId, Links, SyncRequest};
use crate::protocol::long;
use crate::q::QError;
use crate::tick::core::call::Call;
use crate::tick::core::{Reason, Refusal};
use crate::tick::quarantine::Refused;
use bytes::Bytes;
use proto::{View, Writer, types};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Outcome of a retried update: kdb+'s error name and the reason, both empty if it was published.
type Outcome = (u64, String, String);

impl Plant {
    /// `.u.retry[ids]`: publishes rejected updates again as the caller's, in the order of their ids. Those that are accepted are no longer
    /// rejected updates. Writes a table of the outcomes.
    ///
    /// # Errors
    /// `type` for other arguments, `limit` for more ids than the quarantine may hold.
    pub(super) fn retry(
        &mut self,
        args: &[View<'_>],
        conn: ConnId,
        writer: &mut Writer<'_>,
        ctl: &mut dyn Links,
    ) -> Result<(), QError> {
        let ids = self.ids(args, ".u.retry")?;
        let grants = Plant::grants(conn, ctl);
        let outcomes: Vec<Outcome> = ids.iter().map(|id| self.retry_one(*id, &grants, conn, ctl)).collect();
        self.settle(ctl);
        if let Some(failure) = self.log.failure() {
            return Err(QError::with("io", failure));
        }
        let published = outcomes.iter().filter(|(_, term, _)| term.is_empty()).map(|(id, ..)| *id).collect();
        self.forget(&published, conn);
        writer.table_head(["id", "error", "reason"]);
        let ids: Vec<i64> = outcomes.iter().map(|(id, ..)| long(*id)).collect();
        writer.vector(types::LONG, types::ATTR_NONE, &ids);
        writer.symbols(outcomes.iter().map(|(_, term, _)| term));
        writer.list_head(outcomes.len());
        outcomes.iter().for_each(|(.., reason)| writer.chars(reason));
        Ok(())
    }

    fn retry_one(&mut self, id: u64, grants: &Grants, conn: ConnId, ctl: &dyn Links) -> Outcome {
        let kept = self.quarantine.get(id).filter(|refused| grants.reads_all_of(&refused.table)).map(Arc::clone);
        let Some(refused) = kept else {
            return (id, "domain".to_string(), format!("there is no rejected update {id} that you may read"));
        };
        match self.publish_again(&refused, conn, ctl) {
            Ok(()) => (id, String::new(), String::new()),
            Err((term, reason)) => (id, term, reason),
        }
    }

    fn publish_again(&mut self, refused: &Refused, conn: ConnId, ctl: &dyn Links) -> Result<(), (String, String)> {
        if !refused.is_whole() {
            let (kept, all) = (refused.message.len(), refused.message_bytes);
            return Err(("length".to_string(), format!("only {kept} of its {all} bytes were kept: publish it again")));
        }
        let refusal = |reason: Reason| Refusal { table: refused.table.clone(), reason };
        let call = Call { table: &refused.table, data: &refused.message };
        let reason = self.publish_refused(conn, &refused.table, ctl).or_else(|| self.why_closed());
        let accepted = match (reason, &refused.number) {
            (Some(reason), _) => Err(refusal(reason)),
            (None, None) => self.log_plain(&call),
            (None, Some((publisher, seq))) => self.retry_numbered(&call, refused.id, (publisher, *seq), &refused.user),
        };
        match accepted {
            Ok(accepted) => {
                self.count_accepted(conn, &call, accepted, ctl);
                Ok(())
            }
            Err(refusal) => Err((refusal.reason.term().to_string(), refusal.to_string())),
        }
    }

    /// `.u.discard[ids]`: removes rejected updates; `.u.discard[]` removes all.
    ///
    /// # Errors
    /// As for `.u.retry`.
    pub(super) fn discard(&mut self, args: &[View<'_>], conn: ConnId) -> Result<(), QError> {
        let ids = match args.first().is_none_or(View::is_null) {
            true => self.quarantine.iter().map(|refused| refused.id).collect(),
            false => self.ids(args, ".u.discard")?,
        };
        // An id that does not exist must not be written: a restart continues after the highest.
        if let Some(id) = ids.iter().find(|id| self.quarantine.get(**id).is_none()) {
            return Err(QError::with("domain", format!("there is no rejected update {id}; nothing is discarded")));
        }
        self.forget(&ids, conn);
        Ok(())
    }

    fn forget(&mut self, ids: &BTreeSet<u64>, conn: ConnId) {
        if !ids.is_empty() {
            self.quarantine.remove(ids);
            let change = self.keeper.gone(ids.iter().copied());
            self.rejections.changed(conn, change);
        }
    }

    /// The updates of this iteration are logged: marks the rejected ones whose numbers were accepted.
    pub(super) fn mark_accepted(&mut self) {
        if !self.accepted_since.is_empty() {
            let accepted = self.quarantine.mark_accepted(self.accepted_since.drain(..));
            self.keep_accepted(accepted);
        }
    }

    /// Keeps over a restart that the numbers of these updates have been accepted.
    pub(super) fn keep_accepted(&mut self, ids: Vec<u64>) {
        if !ids.is_empty() {
            self.keeper.accepted(ids);
        }
    }

    /// Sends a response once the file of rejected updates has what its connection has caused in it: a rejection that a publisher knows of is in
    /// `.u.rejected`, also after a kill.
    pub fn respond(&mut self, request: SyncRequest, answer: Bytes, ctl: &mut dyn Links) {
        let change = self.rejections.change_of(request.conn);
        let answer = match self.keeper.has_settled(change) {
            true => Some(answer),
            false => self.held.hold(change, request, answer),
        };
        if let Some(answer) = answer {
            ctl.reply(request, answer);
        }
    }

    /// Sends the responses that were held back and are due.
    pub(super) fn send_held(&mut self, ctl: &mut dyn Links) {
        while let Some((request, answer)) = self.held.next(|change| self.keeper.has_settled(change)) {
            ctl.reply(request, answer);
        }
    }

    /// Returns the argument of a function that takes a long or longs.
    fn ids(&self, args: &[View<'_>], function: &str) -> Result<BTreeSet<u64>, QError> {
        let wrong = || QError::with("type", format!("{function} takes ids of .u.rejected: a long, or a list of longs"));
        let arg = args.first().ok_or_else(wrong)?;
        if let Some(id) = arg.atom::<i64>().filter(|_| arg.type_code() == -types::LONG) {
            return Ok(BTreeSet::from([u64::try_from(id).map_err(|_| wrong())?]));
        }
        let most = self.quarantine.updates_most();
        if arg.count() > most {
            let reason = format!("{function} of more than {most} ids (--limit-quarantine-updates)");
            return Err(QError::with("limit", reason));
        }
        if arg.list().is_some_and(|list| list.count == 0) {
            return Ok(BTreeSet::new());
        }
        let longs = arg.vector().filter(|vector| vector.ty == types::LONG).ok_or_else(wrong)?;
        // Negative ids, which no update has, are found to be missing like others.
        let number = |id: &[u8]| Some(i64::from_le_bytes(id.try_into().ok()?).cast_unsigned());
        Ok(longs.items.chunks_exact(8).filter_map(number).collect())
    }
}
