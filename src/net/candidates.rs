//! Several addresses of a tickerplant: a client connects to each in turn until one is the active one.
//!
//! With one address a client connects to it, whatever its role: a passive tickerplant refuses requests by name. With several a check decides on each
//! connection. Names are resolved again in each round, so that changed records are followed.

use super::client::{Client, ClientError, Target};
use crate::config::{Address, Addresses};
use proto::{Limits, handshake};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Records of all names that are tried in a round.
const MAX_CANDIDATES: usize = 32;
/// Time for one of several to accept the connection and to tell its role: a host that is down must not delay the next one for long.
const EACH_WITHIN: Duration = Duration::from_secs(3);

/// One place to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    address: Address,
    /// A record of the name, if the name has several.
    at: Option<SocketAddr>,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{} ({})", self.address, at.ip()),
            None => write!(f, "{}", self.address),
        }
    }
}

/// Terms of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Time for a round of connections, and for each later request and write.
    pub timeout: Duration,
    pub limits: Limits,
    /// Request error responses with a reason, for a person.
    pub explains: bool,
}

/// Fails with `NoneActive` if the tickerplant of a new connection is not active.
pub type Check = fn(&mut Client) -> Result<(), ClientError>;

/// The addresses of a tickerplant, and which of them was active last.
#[derive(Debug)]
pub struct Candidates {
    addresses: Addresses,
    check: Check,
    /// The next one to try: the one that was active last, or the one at which a round ran out of time.
    next: Option<Candidate>,
    active: Option<Candidate>,
}

impl Candidates {
    pub fn new(addresses: Addresses, check: Check) -> Candidates {
        Candidates { addresses, check, next: None, active: None }
    }

    /// Connects to the active tickerplant: tries each address once, at first the one that was active last. Where it ran out of time, the next
    /// call continues.
    ///
    /// # Errors
    /// With one address, the connection's. With several, `Refused` if each rejects the user, otherwise `NoneActive` with a reason for each.
    pub fn connect(&mut self, terms: Terms) -> Result<Client, ClientError> {
        let candidates = self.round();
        let by = Instant::now().checked_add(terms.timeout);
        if let [only] = candidates.as_slice() {
            let client = open(only, terms.timeout, terms)?;
            self.found(only);
            return Ok(client);
        }
        let (mut reasons, mut are_refusals) = (Vec::new(), true);
        for candidate in &candidates {
            let left = by.map_or(EACH_WITHIN, |by| by.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                self.next = Some(candidate.clone());
                break;
            }
            match self.checked(candidate, left.min(EACH_WITHIN), terms) {
                Ok(client) => {
                    self.found(candidate);
                    return Ok(client);
                }
                Err(error) => {
                    are_refusals &= matches!(error, ClientError::Refused(_));
                    reasons.push(reason(candidate, &error));
                }
            }
        }
        let reasons = reasons.join("; ");
        Err(if are_refusals {
            ClientError::Refused(self.addresses.to_string())
        } else {
            ClientError::NoneActive(reasons)
        })
    }

    /// Whether there is more than one to choose from.
    pub fn are_several(&self) -> bool {
        self.round().len() > 1
    }

    /// Connects to a candidate, unless its tickerplant is not active.
    fn checked(&self, candidate: &Candidate, within: Duration, terms: Terms) -> Result<Client, ClientError> {
        let began = Instant::now();
        let mut client = open(candidate, within, terms)?;
        client.set_timeout(Some(within.saturating_sub(began.elapsed())));
        (self.check)(&mut client)?;
        client.set_timeout(Some(terms.timeout));
        Ok(client)
    }

    fn found(&mut self, candidate: &Candidate) {
        if let Some(before) = self.active.as_ref().filter(|before| *before != candidate) {
            tracing::warn!(
                "changed over to the tickerplant at {candidate}; the one at {before} is not active any more"
            );
        }
        self.next = Some(candidate.clone());
        self.active = Some(candidate.clone());
    }

    /// Returns every candidate once, from the next one on.
    fn round(&self) -> Vec<Candidate> {
        let mut round: Vec<Candidate> = Vec::new();
        for candidate in self.addresses.iter().flat_map(resolved) {
            if round.len() < MAX_CANDIDATES && !round.contains(&candidate) {
                round.push(candidate);
            }
        }
        if let Some(first) = self.next.as_ref().and_then(|next| round.iter().position(|candidate| candidate == next)) {
            round.rotate_left(first);
        }
        round
    }
}

impl fmt::Display for Candidates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.active {
            Some(active) => write!(f, "{active}"),
            None => write!(f, "{}", self.addresses),
        }
    }
}

/// Returns a candidate for each record of the address's name. A name that cannot be resolved now remains one, whose connection fails.
fn resolved(address: &Address) -> Vec<Candidate> {
    let whole = || vec![Candidate { address: address.clone(), at: None }];
    if address.is_unix() {
        return whole();
    }
    let Ok(records) = (address.host.as_str(), address.port).to_socket_addrs() else { return whole() };
    let records: Vec<SocketAddr> = records.collect();
    // `localhost` has two records and is one host.
    let is_localhost = |record: &SocketAddr| record.ip() == Ipv4Addr::LOCALHOST || record.ip() == Ipv6Addr::LOCALHOST;
    if records.len() < 2 || records.iter().all(is_localhost) {
        return whole();
    }
    records.into_iter().map(|at| Candidate { address: address.clone(), at: Some(at) }).collect()
}

fn open(candidate: &Candidate, within: Duration, terms: Terms) -> Result<Client, ClientError> {
    let target = Target { address: &candidate.address, at: candidate.at, within, mark: &[] };
    let offered = handshake::CAPABILITY | if terms.explains { handshake::EXPLAINS } else { 0 };
    Client::open(target, terms.timeout, terms.limits, offered)
}

fn reason(candidate: &Candidate, error: &ClientError) -> String {
    match error {
        ClientError::Connect { error, .. } => format!("{candidate}: {error}"),
        ClientError::NoneActive(why) | ClientError::Tls { reason: why, .. } => format!("{candidate}: {why}"),
        ClientError::Refused(_) => format!("{candidate}: it rejects the user or password"),
        error => format!("{candidate}: {error}"),
    }
}
