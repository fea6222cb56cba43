//! The owner's side: acquires its lease, renews it, and knows how long it lasts.

/// The windows of a lease, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerWindows {
    /// Life of a lease from its creation or last renewal.
    pub expire_ns: u64,
    /// Interval of renewals.
    pub renew_ns: u64,
    /// Longest time that work under the lease takes: it is not begun with less than this left.
    pub validity_ns: u64,
    /// Part of the life on which the owner does not rely: what the store rounds off.
    pub slack_ns: u64,
}

impl OwnerWindows {
    /// Life on which the owner relies.
    pub fn usable_ns(self) -> u64 {
        self.expire_ns.saturating_sub(self.slack_ns)
    }
}

/// Input of a step. An answer belongs to the call before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OwnerEvent {
    Tick,
    /// The store has done the call.
    Done,
    /// The store had no lease to renew.
    Gone,
    /// The call failed, or was not answered in time.
    Unanswered,
    /// The process ends in order.
    Leave,
}

/// Output of a step. At most one call is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OwnerAction {
    Acquire,
    Renew,
    Release,
    /// Less than the validity window is left, and the lease is not renewed yet.
    Late {
        left_ns: u64,
    },
    /// The lease is over: others may take this process for gone.
    Lost,
    /// The lease is held, after [`OwnerAction::Late`] or [`OwnerAction::Lost`] or for the first time.
    Held,
}

/// Share of the renew window after which a call that failed is repeated.
const RETRIES_PER_RENEWAL: u64 = 4;

/// A lease as its owner has it. Times are of a monotonic clock that goes on while the host is suspended.
#[derive(Clone, Debug)]
pub struct OwnerLease {
    windows: OwnerWindows,
    /// End of the lease as far as the owner relies on it; `None` without one.
    ends_ns: Option<u64>,
    /// When the next call is due.
    next_ns: u64,
    /// When the call under way began.
    call_ns: Option<u64>,
    is_late: bool,
    is_leaving: bool,
}

impl OwnerLease {
    /// A process without a lease, which acquires one at its first step.
    pub fn new(windows: OwnerWindows, now_ns: u64) -> OwnerLease {
        OwnerLease { windows, ends_ns: None, next_ns: now_ns, call_ns: None, is_late: false, is_leaving: false }
    }

    /// End of the lease by the owner's reckoning.
    pub fn ends_ns(&self) -> Option<u64> {
        self.ends_ns
    }

    /// When [`OwnerEvent::Tick`] has work.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        if self.is_leaving {
            return None;
        }
        let late_ns = self.ends_ns.map(|ends| match self.is_late {
            true => ends,
            false => ends.saturating_sub(self.windows.validity_ns),
        });
        let call_ns = self.call_ns.is_none().then_some(self.next_ns);
        [late_ns, call_ns].into_iter().flatten().min()
    }

    /// Applies an event.
    pub fn step(&mut self, event: OwnerEvent, now_ns: u64) -> Vec<OwnerAction> {
        let mut out = Vec::new();
        let began_ns = if event == OwnerEvent::Tick { None } else { self.call_ns.take() };
        match event {
            OwnerEvent::Tick => {}
            OwnerEvent::Done => {
                if let Some(began_ns) = began_ns.filter(|_| !self.is_leaving) {
                    // From before the request: the store counts from when it carried it out.
                    let ends_ns = began_ns.saturating_add(self.windows.usable_ns());
                    if self.ends_ns.is_none() || self.is_late {
                        out.push(OwnerAction::Held);
                    }
                    (self.ends_ns, self.is_late) = (Some(ends_ns), false);
                    self.next_ns = began_ns.saturating_add(self.windows.renew_ns);
                }
            }
            OwnerEvent::Gone => {
                if self.ends_ns.take().is_some() {
                    out.push(OwnerAction::Lost);
                }
                (self.next_ns, self.is_late) = (now_ns, false);
            }
            OwnerEvent::Unanswered => {
                self.next_ns = now_ns.saturating_add((self.windows.renew_ns / RETRIES_PER_RENEWAL).max(1));
            }
            OwnerEvent::Leave => {
                if !std::mem::replace(&mut self.is_leaving, true) {
                    self.ends_ns = None;
                    out.push(OwnerAction::Release);
                }
            }
        }
        if !self.is_leaving {
            self.check_end(now_ns, &mut out);
            self.call(now_ns, &mut out);
        }
        out
    }

    fn check_end(&mut self, now_ns: u64, out: &mut Vec<OwnerAction>) {
        let Some(ends_ns) = self.ends_ns else { return };
        let left_ns = ends_ns.saturating_sub(now_ns);
        if left_ns == 0 {
            (self.ends_ns, self.is_late) = (None, false);
            // It may still be there in the store, whose clock has the last word: a renewal would bring it back unseen.
            self.next_ns = now_ns;
            out.push(OwnerAction::Lost);
        } else if left_ns <= self.windows.validity_ns && !self.is_late {
            self.is_late = true;
            out.push(OwnerAction::Late { left_ns });
        }
    }

    fn call(&mut self, now_ns: u64, out: &mut Vec<OwnerAction>) {
        if self.call_ns.is_none() && self.next_ns <= now_ns {
            self.call_ns = Some(now_ns);
            out.push(if self.ends_ns.is_some() { OwnerAction::Renew } else { OwnerAction::Acquire });
        }
    }
}
