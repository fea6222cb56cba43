//! `.u.confirm[]`: what became of the updates that a connection has published.

use super::Plant;
use super::calls::Called;
use crate::net::{ConnId, Links};
use proto::Writer;

impl Plant {
    /// Writes the position of the log and the rejected updates of the connection. The response is sent once all updates before that position
    /// are as durable as promised; at once if the log cannot be written, and then the position is the end of those that are.
    pub(super) fn confirm(&mut self, conn: ConnId, writer: &mut Writer<'_>, ctl: &mut dyn Links) -> Called {
        self.settle(ctl);
        // Under durability `none` updates are in a buffer, and a count of the log must not include them.
        if let Err(error) = self.log.flush() {
            self.fail(&error, ctl);
        }
        let failure = self.log.failure().unwrap_or_default();
        let (index, called) = match failure.is_empty() {
            true => (self.feed.tip().index, Called::PutWhenDurable),
            false => (self.log.acknowledged_tip(), Called::Put),
        };
        let rejected = self.rejections.of(conn).cloned().unwrap_or_default();
        writer.dict_head();
        writer.symbols(["i", "L", "rejected", "reasons", "failure"]);
        writer.list_head(5);
        writer.atom_long(index.cast_signed());
        writer.symbol(self.log_handle());
        writer.atom_long(rejected.updates.cast_signed());
        writer.list_head(rejected.reasons.len());
        rejected.reasons.iter().for_each(|reason| writer.chars(reason));
        writer.chars(failure);
        called
    }
}
