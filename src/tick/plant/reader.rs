//! What of the variables of `.u` a client sees.

use crate::access::Grants;
use crate::net::ConnId;
use crate::queue::Row;

/// A client that reads variables.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    pub conn: ConnId,
    pub grants: &'a Grants,
}

impl Reader<'_> {
    /// Whether `.u.w` and `.u.conns` show a connection: an operator sees all, others see their own.
    pub(super) fn sees_connection(&self, conn: ConnId) -> bool {
        self.grants.operator || conn == self.conn
    }

    /// Whether `.u.asg.tab` shows a node. Its counts are of all rows, so a user who may not read all sees none but the nodes of the queues
    /// that the user may join.
    pub(super) fn sees_node(&self, row: &Row) -> bool {
        self.grants.operator || self.grants.reads_everything() || self.grants.joins(&row.queue.0)
    }
}
