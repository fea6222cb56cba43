//! A brake on guessing passwords. Pure: the caller passes the time.
//!
//! A few wrong passwords are free. Each further one locks the address out for twice as long as the one before, and the user too. At the
//! address from which the user last logged in, the user is locked out for a second at most: somebody who guesses the password elsewhere must
//! not keep the user away, and somebody who guesses it there must not guess fast.
//! Users are counted without regard to case, because a directory takes `ANN` for `ann`. Without a user only the address counts: many share an
//! empty name.
//! Names that the users file does not have are counted apart, so that a flood of them cannot push out the count of a user.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Wrong passwords without a consequence.
const FREE: u32 = 5;
/// First and longest time of a lock-out.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// Time after which wrong passwords are forgotten.
const FORGET: Duration = Duration::from_secs(600);
/// Maximum number of addresses, of users, and of other names, whose wrong passwords are counted; a further one replaces the one whose last was
/// longest ago.
const MAX_ENTRIES: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Failures {
    /// Returns when the lock-out ends, which lasts at most `longest`.
    fn locked_until(self, longest: Duration) -> Option<Instant> {
        let beyond = self.count.checked_sub(FREE)?;
        let time = FIRST.saturating_mul(1_u32.checked_shl(beyond).unwrap_or(u32::MAX)).min(longest);
        self.last.checked_add(time)
    }
}

/// Wrong passwords by address and by user.
#[derive(Debug, Default)]
pub struct Brake {
    addresses: HashMap<IpAddr, Failures>,
    /// Of users of the users file, and of those who have logged in.
    users: HashMap<Vec<u8>, Failures>,
    /// Of all other names, which anybody can make up.
    unknown: HashMap<Vec<u8>, Failures>,
    /// Where each user last logged in.
    known: HashMap<Vec<u8>, (IpAddr, Instant)>,
}

impl Brake {
    /// Returns how long a login must wait, if its address or its user is locked out.
    pub fn wait(&self, ip: IpAddr, user: &[u8], now: Instant) -> Option<Duration> {
        let (ip, user) = (network(ip), &user.to_ascii_lowercase());
        // All users of this machine share its address.
        let by_address = self.addresses.get(&ip).filter(|_| !ip.is_loopback() && !ip.is_unspecified());
        let is_known = self.known.get(user).is_some_and(|(known, _)| *known == ip);
        // In both if the users file has changed.
        let by_user = [self.users.get(user), self.unknown.get(user)].into_iter().flatten();
        let of_address = by_address.and_then(|failures| failures.locked_until(LONGEST));
        let longest = if is_known { FIRST } else { LONGEST };
        let of_user = by_user.filter_map(|failures| failures.locked_until(longest)).max();
        let until = of_address.max(of_user)?;
        until.checked_duration_since(now).filter(|wait| !wait.is_zero())
    }

    /// Counts a wrong password. `is_named`: the users file has the user.
    pub fn failed(&mut self, ip: IpAddr, user: &[u8], is_named: bool, now: Instant) {
        count(&mut self.addresses, network(ip), now);
        if user.is_empty() {
            return;
        }
        let user = user.to_ascii_lowercase();
        // A user of an identity service shows by a login that the name is one.
        let is_user = is_named || self.known.contains_key(&user);
        count(if is_user { &mut self.users } else { &mut self.unknown }, user, now);
    }

    /// Records a login.
    pub fn succeeded(&mut self, ip: IpAddr, user: &[u8], now: Instant) {
        let (ip, user) = (network(ip), &user.to_ascii_lowercase());
        if user.is_empty() {
            return;
        }
        // The address keeps its count: somebody with an account could otherwise reset it between two guesses at another's.
        self.users.remove(user);
        self.unknown.remove(user);
        room(&mut self.known, user, |(_, at)| *at);
        self.known.insert(user.clone(), (ip, now));
    }
}

/// An IPv4 address, or the network of an IPv6 address: a host has all addresses of its network.
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) => std::net::Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

fn count<K: Hash + Eq + Clone>(entries: &mut HashMap<K, Failures>, key: K, now: Instant) {
    let before = entries.get(&key).filter(|failures| now.saturating_duration_since(failures.last) < FORGET);
    let count = before.map_or(0, |failures| failures.count).saturating_add(1);
    room(entries, &key, |failures| failures.last);
    entries.insert(key, Failures { count, last: now });
}

/// Makes room for a further key by removing the oldest entry.
fn room<K: Hash + Eq + Clone + Borrow<Q>, V, Q: Hash + Eq + ?Sized>(
    entries: &mut HashMap<K, V>,
    key: &Q,
    at: impl Fn(&V) -> Instant,
) {
    if entries.len() < MAX_ENTRIES || entries.contains_key(key) {
        return;
    }
    let oldest = entries.iter().min_by_key(|(_, value)| at(value)).map(|(key, _)| key.clone());
    if let Some(oldest) = oldest {
        entries.remove(oldest.borrow());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const HOME: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const AWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn lock_outs_double_and_are_forgotten() {
        let (mut brake, start) = (Brake::default(), Instant::now());
        for _ in 0..4 {
            brake.failed(HOME, b"ann", true, start);
            assert_eq!(brake.wait(HOME, b"ann", start), None);
        }
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            brake.failed(HOME, b"ann", true, start);
            assert_eq!(
                brake.wait(HOME, b"bob", start),
                Some(Duration::from_secs(seconds)),
                "the address is locked out"
            );
            assert_eq!(brake.wait(AWAY, b"ann", start), Some(Duration::from_secs(seconds)), "and the user");
        }
        assert_eq!(brake.wait(AWAY, b"bob", start), None);
        assert_eq!(brake.wait(HOME, b"ann", after(start, 60)), None);
        brake.failed(HOME, b"ann", true, after(start, 700));
        assert_eq!(brake.wait(HOME, b"ann", after(start, 700)), None, "forgotten");
    }

    #[test]
    fn a_user_is_locked_out_of_the_last_address_for_a_second_at_most() {
        let (mut brake, start) = (Brake::default(), Instant::now());
        brake.succeeded(HOME, b"ann", start);
        (0..9).for_each(|_| brake.failed(AWAY, b"ann", true, start));
        assert_eq!(brake.wait(HOME, b"ann", start), Some(FIRST));
        assert_eq!(brake.wait(HOME, b"ann", start + FIRST), None);
        assert_eq!(brake.wait(AWAY, b"ann", start + FIRST), Some(Duration::from_secs(15)));
    }

    #[test]
    fn passwords_are_not_guessed_fast_at_the_last_address() {
        let (mut brake, start, local) = (Brake::default(), Instant::now(), Ipv4Addr::LOCALHOST.into());
        brake.succeeded(local, b"ann", start);
        (0..5).for_each(|_| brake.failed(local, b"ann", true, start));
        assert_eq!(brake.wait(local, b"ann", start), Some(FIRST));
    }

    #[test]
    fn a_login_of_another_user_does_not_reset_the_address() {
        let (mut brake, start) = (Brake::default(), Instant::now());
        for _ in 0..4 {
            (0..3).for_each(|_| brake.failed(AWAY, b"ann", true, start));
            brake.succeeded(AWAY, b"bob", start);
        }
        assert!(brake.wait(AWAY, b"cy", start).is_some());
    }

    #[test]
    fn one_user_of_a_machine_does_not_lock_out_its_others() {
        let (mut brake, start, local) = (Brake::default(), Instant::now(), Ipv4Addr::LOCALHOST.into());
        (0..9).for_each(|_| brake.failed(local, b"ann", true, start));
        assert!(brake.wait(local, b"ann", start).is_some());
        assert_eq!(brake.wait(local, b"bob", start), None);
    }

    #[test]
    fn spellings_of_a_user_count_together_and_no_user_is_nobody() {
        let (mut brake, start) = (Brake::default(), Instant::now());
        for user in ["ann", "Ann", "aNn", "anN", "ANN"] {
            brake.failed(AWAY, user.as_bytes(), true, start);
            brake.failed(AWAY, b"", true, start);
        }
        assert!(brake.wait(HOME, b"ann", start).is_some());
        assert_eq!(brake.wait(HOME, b"", start), None);
        assert!(brake.wait(AWAY, b"", start).is_some());
    }

    #[test]
    fn the_addresses_of_a_network_are_one() {
        let (mut brake, start) = (Brake::default(), Instant::now());
        for host in 0..9 {
            brake.failed(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host).into(), b"ann", true, start);
        }
        assert!(brake.wait(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 9, 9, 9, 9).into(), b"bob", start).is_some());
    }

    #[test]
    fn a_flood_of_names_does_not_clear_a_users_count() {
        let (mut brake, start, local) = (Brake::default(), Instant::now(), Ipv4Addr::LOCALHOST.into());
        brake.succeeded(HOME, b"dir", start);
        for user in [b"ann", b"dir"] {
            (0..9).for_each(|_| brake.failed(local, user, user == b"ann", start));
        }
        let wait = |brake: &Brake| [b"ann", b"dir"].map(|user| brake.wait(local, user, start));
        let before = wait(&brake);
        assert_eq!(before, [Some(Duration::from_secs(16)); 2]);
        for number in 0..5000_u32 {
            brake.failed(local, &number.to_be_bytes(), false, after(start, 1));
        }
        assert_eq!(wait(&brake), before);
        assert_eq!(brake.unknown.len(), MAX_ENTRIES);
        // Names that are made up are locked out as well, and a login ends either.
        (0..9).for_each(|_| brake.failed(local, b"eve", false, start));
        assert!(brake.wait(local, b"eve", start).is_some());
        brake.succeeded(local, b"eve", start);
        assert_eq!(brake.wait(local, b"eve", start), None);
    }

    #[test]
    fn no_more_is_remembered_than_the_limit() {
        let (mut brake, start) = (Brake::default(), Instant::now());
        for number in 0..5000_u32 {
            let ip = Ipv4Addr::from_bits(0x0a00_0000 + number).into();
            brake.failed(ip, &number.to_be_bytes(), true, after(start, u64::from(number)));
            brake.succeeded(HOME, &number.to_le_bytes(), after(start, u64::from(number)));
        }
        assert!(brake.addresses.len() <= MAX_ENTRIES && brake.users.len() <= MAX_ENTRIES);
        assert_eq!(brake.known.len(), MAX_ENTRIES);
    }
}
