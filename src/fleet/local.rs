//! Client of a supervisor on this machine: the back end `local`.

use super::protocol::{self, Call};
use super::{Capacity, Description, Fleet, FleetError, Identity, Notice};
use crate::config::Address;
use crate::net::client::{Client, ClientError};
use proto::{Limits, Value};
use std::time::Duration;

/// Environment variables that a supervisor sets for its instances.
pub const FLEET_VARIABLE: &str = "ELASTICK_FLEET";
pub const INSTANCE_VARIABLE: &str = "ELASTICK_INSTANCE";
pub const GROUP_VARIABLE: &str = "ELASTICK_GROUP";

/// Time for the supervisor to respond.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Connection to a supervisor, made again when it breaks.
pub struct Local {
    address: Address,
    identity: Identity,
    client: Option<Client>,
}

impl Local {
    pub fn new(address: Address, identity: Identity) -> Local {
        Local { address, identity, client: None }
    }

    /// Identifies this process by its environment variables.
    ///
    /// # Errors
    /// `Protocol` if they are not set.
    pub fn from_environment(address: Address) -> Result<Local, FleetError> {
        let variable = |name: &str| {
            let unset = |error| FleetError::Protocol(format!("{name}: {error}; `elastick fleet` sets it"));
            std::env::var(name).map_err(unset)
        };
        let identity = Identity { instance: variable(INSTANCE_VARIABLE)?, group: variable(GROUP_VARIABLE)? };
        Ok(Local::new(address, identity))
    }

    fn call(&mut self, call: &Call) -> Result<Value, FleetError> {
        let unreachable = |address: &Address, error: ClientError| FleetError::Unreachable {
            address: address.to_string(),
            reason: error.to_string(),
        };
        let mut client = match self.client.take() {
            Some(client) => client,
            None => Client::connect(&self.address, TIMEOUT, Limits::default())
                .map_err(|error| unreachable(&self.address, error))?,
        };
        match client.request(&call.encode()) {
            Ok(answer) => {
                self.client = Some(client);
                Ok(answer)
            }
            Err(ClientError::Server(reason)) => {
                self.client = Some(client);
                Err(FleetError::Refused(String::from_utf8_lossy(&reason).into_owned()))
            }
            // All calls are idempotent, so after a broken connection the next call simply reconnects.
            Err(error) => Err(unreachable(&self.address, error)),
        }
    }
}

impl Fleet for Local {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn describe(&mut self) -> Result<Description, FleetError> {
        let answer = self.call(&Call::Describe { group: self.identity.group.clone() })?;
        protocol::decode_description(&answer).ok_or_else(|| FleetError::Protocol(format!("{answer:?}")))
    }

    fn at_least(&mut self, desired: u32) -> Result<Capacity, FleetError> {
        let answer = self.call(&Call::AtLeast { group: self.identity.group.clone(), desired })?;
        protocol::decode_capacity(&answer).ok_or_else(|| FleetError::Protocol(format!("{answer:?}")))
    }

    fn ready(&mut self) -> Result<(), FleetError> {
        self.call(&Call::Ready { instance: self.identity.instance.clone() }).map(drop)
    }

    fn protect(&mut self, on: bool) -> Result<(), FleetError> {
        self.call(&Call::Protect { instance: self.identity.instance.clone(), on }).map(drop)
    }

    fn notice(&mut self) -> Result<Option<Notice>, FleetError> {
        let answer = self.call(&Call::Notice { instance: self.identity.instance.clone() })?;
        protocol::decode_notice(&answer).ok_or_else(|| FleetError::Protocol(format!("{answer:?}")))
    }

    fn released(&mut self) -> Result<(), FleetError> {
        self.call(&Call::Released { instance: self.identity.instance.clone() }).map(drop)
    }

    fn leaving(&mut self) -> Result<bool, FleetError> {
        self.call(&Call::Leaving { instance: self.identity.instance.clone() }).map(|_| true)
    }

    fn replace(&mut self, instance: &str) -> Result<(), FleetError> {
        self.call(&Call::Replace { instance: instance.to_string() }).map(drop)
    }

    fn terminate_me(&mut self) -> Result<(), FleetError> {
        self.call(&Call::Terminate { instance: self.identity.instance.clone() }).map(drop)
    }
}
