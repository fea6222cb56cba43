//! A connection that belongs to a queue.

use crate::queue::{Subscription, Symbol};
use crate::tick::core::schema::Form;
use std::sync::Arc;

/// A connection that belongs to a queue.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub form: Form,
    pub subscription: Arc<Subscription>,
    /// A paper subscriber's count is in updates before this index, and in messages from it on.
    pub counted_from: u64,
    /// Its count at the last end of a day: the paper's `asg/r.q`, as printed, does not reset it.
    pub carried: u64,
    /// The day ended before this node sent its feed position: whatever it sends, the new day is fed from its start.
    pub from_start: bool,
    /// Its rows are not of this log: it must drop them all.
    pub is_foreign: bool,
    /// When a node's last message came, on the steady clock.
    pub heard_ns: i64,
    /// Name under which a node's process has a lease of its own.
    pub owner: Option<Symbol>,
}

impl Member {
    /// A subscriber of the paper.
    pub fn paper(subscription: Arc<Subscription>) -> Member {
        Member {
            form: Form::Table,
            subscription,
            counted_from: 0,
            carried: 0,
            from_start: false,
            is_foreign: false,
            heard_ns: i64::MIN,
            owner: None,
        }
    }

    /// One of elastick's nodes, which joins at `heard_ns`; `is_foreign`: its rows are not of this log.
    pub fn node(subscription: Arc<Subscription>, is_foreign: bool, heard_ns: i64) -> Member {
        Member { form: Form::Indexed, is_foreign, heard_ns, ..Member::paper(subscription) }
    }

    pub fn is_node(&self) -> bool {
        self.form == Form::Indexed
    }

    /// Returns a paper subscriber's count of today, with `tip` updates so far; `None` if it is more than that.
    pub fn count_today(&self, count: i64, tip: u64) -> Option<u64> {
        let count = u64::try_from(count).ok()?;
        match count.checked_sub(self.carried) {
            Some(today) if count > tip && today <= tip => Some(today),
            _ => (count <= tip).then_some(count),
        }
    }

    /// A day ends after so many updates.
    pub fn day_ended(&mut self, updates: u64) {
        self.counted_from = 0;
        self.carried = self.carried.saturating_add(updates);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_goes_on_over_the_end_of_a_day_counts_from_there() {
        let mut member = Member::paper(Arc::default());
        assert_eq!(
            [member.count_today(7, 9), member.count_today(10, 9), member.count_today(-1, 9)],
            [Some(7), None, None]
        );
        member.day_ended(100);
        assert_eq!(
            [member.count_today(104, 9), member.count_today(4, 9), member.count_today(111, 9)],
            [Some(4), Some(4), None]
        );
    }
}
