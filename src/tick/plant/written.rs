//! `.u.asg.written[date;next]`: what another process has written down.

use super::Plant;
use super::arguments::date_argument;
use super::calls::Called;
use super::connection::handle;
use crate::net::{ConnId, Links};
use crate::q::QError;
use crate::queue::{Date, QueueEvent, UpdateIndex};
use proto::{View, Writer, types};

impl Plant {
    /// Takes the report that all updates before `next` are written down. Writes the index that holds from then on: the highest one reported.
    ///
    /// # Errors
    /// `type` for other arguments; `domain` for another day, or an index beyond the tip.
    pub(super) fn written(
        &mut self,
        args: &[View<'_>],
        conn: ConnId,
        writer: &mut Writer<'_>,
        ctl: &mut dyn Links,
    ) -> Result<Called, QError> {
        let wrong = || {
            QError::with(
                "type",
                ".u.asg.written takes a date and a long, the index of the first update that is not written down",
            )
        };
        let date = date_argument(args).map(Date).ok_or_else(wrong)?;
        let next = args.get(1).and_then(View::atom::<i64>).ok_or_else(wrong)?;
        match u64::try_from(next) {
            Ok(next) => {
                let event = QueueEvent::Written { handle: handle(conn), next: UpdateIndex(next), date };
                self.step_queue(event, None, ctl).map_or(Ok(()), Err)?;
            }
            Err(_) if next == types::NULL_LONG => {}
            Err(_) => return Err(QError::with("domain", format!("there is no update {next}"))),
        }
        writer.atom_long(i64::try_from(self.queue.core().written().0).unwrap_or(i64::MAX));
        Ok(Called::Put)
    }
}
