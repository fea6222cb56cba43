//! What followers have confirmed, and whether that is enough under `--durability replica(N)`. Pure.
//!
//! An update is confirmed once N followers have it on their disks. If that takes longer than the time limit, too few followers confirm, and
//! `--replica-missing` applies, until N followers have caught up with a tip that is no older than the time limit.

/// Index of an update in the log of a day, in days since 2000.01.01.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub date: i32,
    pub index: u64,
}

/// What happens to followers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<K> {
    Joined(K),
    /// A follower has all updates before this position on its disk.
    Confirmed(K, Position),
    Left(K),
    /// Updates were logged, or time has passed.
    Time,
}

/// Change of what is promised to publishers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Too few followers confirm.
    Missing,
    /// Enough followers confirm again.
    Back,
}

/// The followers `K`, and what they have confirmed.
#[derive(Clone, Debug)]
pub struct Replicas<K> {
    /// Followers that have to confirm an update before its publisher gets the response; 0 if it waits for none.
    needed: usize,
    timeout_ns: i64,
    followers: Vec<(K, Position)>,
    /// What the needed number of followers has.
    confirmed: Position,
    /// A tip that they do not have yet, and when it was the tip.
    awaited: Option<(Position, i64)>,
    is_missing: bool,
}

impl<K: Copy + PartialEq> Replicas<K> {
    pub fn new(needed: usize, timeout_ns: i64) -> Replicas<K> {
        Replicas {
            needed,
            timeout_ns,
            followers: Vec::new(),
            confirmed: Position::default(),
            awaited: None,
            is_missing: false,
        }
    }

    /// Takes an event; `tip`: the position after the last update that was logged.
    pub fn step(&mut self, event: Event<K>, tip: Position, now_ns: i64) -> Option<Change> {
        match event {
            Event::Joined(follower) => self.followers.push((follower, Position::default())),
            Event::Left(follower) => self.followers.retain(|(of, _)| *of != follower),
            Event::Confirmed(follower, durable) => {
                let own = self.followers.iter_mut().find(|(of, _)| *of == follower);
                own.into_iter().for_each(|(_, position)| *position = (*position).max(durable));
                self.count();
            }
            Event::Time => {}
        }
        if self.needed == 0 { None } else { self.judge(tip, now_ns) }
    }

    /// What was confirmed stays confirmed when a follower leaves: it is on its disk.
    fn count(&mut self) {
        let has = |position: Position| self.followers.iter().filter(|(_, own)| *own >= position).count() >= self.needed;
        let best = self.followers.iter().map(|(_, own)| *own).filter(|own| has(*own)).max();
        self.confirmed = self.confirmed.max(best.unwrap_or_default());
    }

    fn judge(&mut self, tip: Position, now_ns: i64) -> Option<Change> {
        let mut change = None;
        if let Some((awaited, since_ns)) = self.awaited {
            let is_late = now_ns.saturating_sub(since_ns) > self.timeout_ns;
            if self.confirmed >= awaited {
                change = (self.is_missing && !is_late).then_some(Change::Back);
            } else if !is_late {
                return None;
            } else {
                change = (!self.is_missing).then_some(Change::Missing);
            }
        } else if self.is_missing && self.confirmed >= tip && self.connected() >= self.needed {
            change = Some(Change::Back);
        }
        self.is_missing = change.map_or(self.is_missing, |change| change == Change::Missing);
        self.awaited = (self.confirmed < tip).then_some((tip, now_ns));
        change
    }

    /// When [`Event::Time`] is due.
    pub fn due_ns(&self) -> Option<i64> {
        let (_, since_ns) = self.awaited.filter(|_| self.needed > 0)?;
        Some(since_ns.saturating_add(self.timeout_ns).saturating_add(1))
    }

    /// Updates before this position are on the disks of the needed number of followers.
    pub fn confirmed(&self) -> Position {
        self.confirmed
    }

    /// Whether too few followers confirm in time.
    pub fn is_missing(&self) -> bool {
        self.is_missing
    }

    /// Whether responses wait for followers.
    pub fn is_needed(&self) -> bool {
        self.needed > 0
    }

    pub fn needed(&self) -> usize {
        self.needed
    }

    /// Followers that are connected.
    pub fn connected(&self) -> usize {
        self.followers.len()
    }

    /// What a follower has confirmed.
    pub fn durable(&self, follower: K) -> Option<Position> {
        self.followers.iter().find(|(of, _)| *of == follower).map(|(_, position)| *position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: i64 = 100;

    fn at(index: u64) -> Position {
        Position { date: 7, index }
    }

    fn with(followers: u8, needed: usize) -> Replicas<u8> {
        let mut replicas = Replicas::new(needed, TIMEOUT);
        for follower in 0..followers {
            replicas.step(Event::Joined(follower), Position::default(), 0);
        }
        replicas
    }

    #[test]
    fn an_update_is_confirmed_once_so_many_followers_have_it() {
        let mut replicas = with(3, 2);
        let mut confirmed = |follower, index| {
            assert_eq!(replicas.step(Event::Confirmed(follower, at(index)), at(9), 1), None);
            replicas.confirmed()
        };
        assert_eq!(confirmed(0, 5), Position::default(), "one of two");
        assert_eq!([confirmed(1, 3), confirmed(2, 9), confirmed(1, 4)], [at(3), at(5), at(5)]);
        // A late or repeated message takes nothing back.
        assert_eq!([confirmed(2, 1), confirmed(0, 2)], [at(5), at(5)]);
        assert_eq!(replicas.step(Event::Left(2), at(9), 2), None);
        assert_eq!(replicas.confirmed(), at(5), "what a follower has confirmed is on its disk");
    }

    #[test]
    fn a_day_is_confirmed_to_its_end_by_the_next_one() {
        let mut replicas = with(1, 1);
        let next = Position { date: 8, index: 0 };
        replicas.step(Event::Confirmed(0, next), next, 1);
        assert!(replicas.confirmed() >= at(u64::MAX) && replicas.confirmed() < Position { date: 8, index: 1 });
    }

    #[test]
    fn too_few_followers_are_missed_after_the_time_limit_and_counted_again_once_they_keep_up() {
        let mut replicas = with(1, 1);
        assert_eq!(replicas.step(Event::Time, at(3), 10), None);
        assert_eq!(replicas.due_ns(), Some(10 + TIMEOUT + 1));
        assert_eq!(replicas.step(Event::Time, at(4), 10 + TIMEOUT), None);
        assert_eq!(replicas.step(Event::Time, at(4), 11 + TIMEOUT), Some(Change::Missing));
        assert_eq!(replicas.step(Event::Time, at(9), 12 + 3 * TIMEOUT), None, "said once");
        // It catches up from far behind, which takes longer than the limit.
        assert_eq!(replicas.step(Event::Confirmed(0, at(9)), at(20), 14 + 5 * TIMEOUT), None);
        assert!(replicas.is_missing());
        assert_eq!(replicas.step(Event::Confirmed(0, at(20)), at(21), 15 + 5 * TIMEOUT), Some(Change::Back));
        assert!(!replicas.is_missing());
    }

    #[test]
    fn a_follower_that_comes_back_to_a_quiet_log_counts_at_once() {
        let mut replicas = with(0, 1);
        assert_eq!(replicas.step(Event::Time, at(1), 0), None);
        assert_eq!(replicas.step(Event::Time, at(1), TIMEOUT + 1), Some(Change::Missing));
        replicas.step(Event::Joined(1), at(1), 10 * TIMEOUT);
        let back = replicas.step(Event::Confirmed(1, at(1)), at(1), 10 * TIMEOUT + 1);
        assert_eq!((back, replicas.is_missing()), (Some(Change::Back), false));
        assert_eq!(replicas.due_ns(), None, "nothing is awaited");
    }

    #[test]
    fn without_a_promise_nothing_is_missed() {
        let mut replicas = with(1, 0);
        assert_eq!(replicas.step(Event::Time, at(3), 0), None);
        assert_eq!(replicas.step(Event::Time, at(4), 100 * TIMEOUT), None);
        replicas.step(Event::Confirmed(0, at(2)), at(4), 0);
        assert_eq!((replicas.due_ns(), replicas.durable(0), replicas.connected()), (None, Some(at(2)), 1));
    }

    /// Of all orders of confirmations, losses and returns: an update counts as confirmed only if enough followers have said so.
    #[test]
    fn nothing_is_confirmed_that_too_few_followers_have() {
        let mut draw = fastrand::Rng::with_seed(17);
        for _ in 0..2_000 {
            let needed = draw.usize(1..4);
            let mut replicas = with(4, needed);
            let mut said = [0u64; 4];
            let mut tip = 0;
            for now in 0..40 {
                tip += draw.u64(0..3);
                let follower = draw.u8(0..4);
                match draw.u8(0..5) {
                    0 => {
                        replicas.step(Event::Left(follower), at(tip), now * 30);
                    }
                    1 if replicas.durable(follower).is_none() => {
                        replicas.step(Event::Joined(follower), at(tip), now * 30);
                    }
                    2 => {
                        replicas.step(Event::Time, at(tip), now * 30);
                    }
                    _ if replicas.durable(follower).is_some() => {
                        let own = said.get_mut(usize::from(follower)).unwrap();
                        *own = draw.u64(*own..=tip.max(*own));
                        replicas.step(Event::Confirmed(follower, at(*own)), at(tip), now * 30);
                    }
                    _ => {}
                }
                let confirmed = replicas.confirmed();
                let have = said.iter().filter(|own| at(**own) >= confirmed).count();
                assert!(confirmed == Position::default() || have >= needed, "{said:?} {confirmed:?}");
            }
        }
    }
}
