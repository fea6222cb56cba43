//! Proof of membership: a node and its tickerplant show each other that they know the cluster's secret, without sending it.
//!
//! The tickerplant gives each connection a random number that is valid once. The node answers with its own random number and an HMAC of both
//! and of its name; the tickerplant answers with an HMAC of its own. A recorded proof is of no use on another connection.

use super::file::FileError;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// User name with which a node logs in that has no other: it may do nothing before its proof.
pub const CLUSTER_USER: &str = "cluster";

/// Shortest secret that is accepted.
const MIN_SECRET_BYTES: usize = 16;

/// A number that is used once.
pub type Nonce = [u8; 32];

/// HMAC-SHA-256 with the cluster's secret over the [`Side`], both nonces and the node's name.
pub type Proof = [u8; 32];

/// Who computes a proof, so that neither side's can be returned to it as the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Node,
    Tickerplant,
}

/// The secret that all members of a cluster know.
#[derive(Clone)]
pub struct ClusterSecret(hmac::Key);

/// Written by hand to keep the secret out of messages and logs.
impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret")
    }
}

impl ClusterSecret {
    /// Reads the secret: the bytes of a file, without white space at its end.
    ///
    /// # Errors
    /// The file cannot be read, other users may read it, or it is too short to be a secret.
    pub fn read(path: &Path) -> Result<ClusterSecret, FileError> {
        let wrong = |reason| FileError { what: "--cluster-secret-file", path: path.to_path_buf(), reason };
        let (bytes, metadata) = std::fs::read(path)
            .and_then(|bytes| Ok((bytes, std::fs::metadata(path)?)))
            .map_err(|error| wrong(error.to_string()))?;
        if metadata.permissions().mode() & 0o007 != 0 {
            return Err(wrong("every user of this machine may read or write it: chmod 600".to_string()));
        }
        ClusterSecret::of(&bytes).ok_or_else(|| wrong(format!("is shorter than {MIN_SECRET_BYTES} bytes")))
    }

    fn of(bytes: &[u8]) -> Option<ClusterSecret> {
        let secret = bytes.trim_ascii_end();
        (secret.len() >= MIN_SECRET_BYTES).then(|| ClusterSecret(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    /// Returns the proof of one side for the node with this name.
    pub fn proof(&self, side: Side, of_tickerplant: &Nonce, of_node: &Nonce, node: &[u8]) -> Proof {
        let tag = hmac::sign(&self.0, &signed(side, of_tickerplant, of_node, node));
        let mut proof = Proof::default();
        proof.iter_mut().zip(tag.as_ref()).for_each(|(own, byte)| *own = *byte);
        proof
    }

    /// Whether a proof is right, in a time that does not depend on the answer.
    pub fn verifies(&self, proof: &[u8], side: Side, of_tickerplant: &Nonce, of_node: &Nonce, node: &[u8]) -> bool {
        hmac::verify(&self.0, &signed(side, of_tickerplant, of_node, node), proof).is_ok()
    }
}

/// The signed text. Its parts but the last have a fixed length, so that no two statements have the same text.
fn signed(side: Side, of_tickerplant: &Nonce, of_node: &Nonce, node: &[u8]) -> Vec<u8> {
    let side: &[u8] = match side {
        Side::Node => b"elastick 1 node        ",
        Side::Tickerplant => b"elastick 1 tickerplant ",
    };
    [side, of_tickerplant, of_node, node].concat()
}

/// Returns a random number of the system.
///
/// # Errors
/// The system has no random numbers.
pub fn nonce() -> Result<Nonce, std::io::Error> {
    let mut nonce = Nonce::default();
    SystemRandom::new().fill(&mut nonce).map_err(|_| std::io::Error::other("the system has no random numbers"))?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Nonce = [1; 32];
    const NODE: Nonce = [2; 32];

    fn secret(text: &str) -> ClusterSecret {
        ClusterSecret::of(text.as_bytes()).expect("long enough")
    }

    #[test]
    fn a_proof_holds_for_what_it_was_made_for_only() {
        let own = secret("0123456789abcdef\n");
        let proof = own.proof(Side::Node, &TICK, &NODE, b"rdb-1");
        assert!(
            secret("0123456789abcdef").verifies(&proof, Side::Node, &TICK, &NODE, b"rdb-1"),
            "the line end is no part"
        );
        assert!(!own.verifies(&proof, Side::Tickerplant, &TICK, &NODE, b"rdb-1"), "returned to its sender");
        assert!(!own.verifies(&proof, Side::Node, &NODE, &NODE, b"rdb-1"), "recorded on another connection");
        assert!(!own.verifies(&proof, Side::Node, &TICK, &TICK, b"rdb-1"));
        assert!(!own.verifies(&proof, Side::Node, &TICK, &NODE, b"rdb-2"), "another node");
        assert!(!secret("0123456789abcdeg").verifies(&proof, Side::Node, &TICK, &NODE, b"rdb-1"), "another secret");
        assert!(!own.verifies(&[], Side::Node, &TICK, &NODE, b"rdb-1"));
    }

    #[test]
    fn numbers_are_not_repeated() {
        assert_ne!(nonce().unwrap(), nonce().unwrap());
    }

    #[test]
    fn a_secret_must_be_long_and_private() {
        let path = std::env::temp_dir().join(format!("elastick-secret-{}", std::process::id()));
        let read = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            ClusterSecret::read(&path).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(read("0123456789abcdef", 0o600), Ok(()));
        assert_eq!(read("0123456789abcdef", 0o640), Ok(()));
        assert!(read("0123456789abcdef", 0o604).is_err_and(|reason| reason.contains("chmod 600")));
        assert!(read("0123456789abcd \n", 0o600).is_err_and(|reason| reason.contains("16 bytes")));
        std::fs::remove_file(&path).unwrap();
        assert!(ClusterSecret::read(&path).is_err());
    }
}
