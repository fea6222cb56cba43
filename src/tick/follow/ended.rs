//! Why a follower stops following its leader.

use super::joining::Refused;
use crate::log::LogError;
use crate::net::client::ClientError;
use crate::protocol::Malformed;

/// Why a session with a leader ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// This process ends.
    Stopped,
    /// The connection broke, or the leader is not there.
    Lost(String),
    /// Leader or log do not fit, in words.
    Refused(String),
    /// The own log cannot be written or read.
    Broken(LogError),
}

impl From<ClientError> for Ended {
    fn from(error: ClientError) -> Ended {
        match error {
            ClientError::Server(text) => Ended::Refused(format!("the leader says: {}", text.escape_ascii())),
            error => Ended::Lost(error.to_string()),
        }
    }
}

impl From<LogError> for Ended {
    fn from(error: LogError) -> Ended {
        Ended::Broken(error)
    }
}

impl From<Refused> for Ended {
    fn from(refused: Refused) -> Ended {
        Ended::Refused(refused.to_string())
    }
}

impl From<Malformed> for Ended {
    fn from(error: Malformed) -> Ended {
        Ended::Refused(format!("the leader speaks another protocol: {error}"))
    }
}
