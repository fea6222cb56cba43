//! Stores of leases, by their URLs.

use super::CliError;
#[cfg(feature = "aws")]
use crate::config::Admiral;
use crate::config::{LeaseTable, LeaseUrl, SwiftLease};
use crate::election::swift::SwiftStore;
use crate::election::{Store, StoreError};
use std::time::Duration;

/// A lease in a store, as its URL or the file that the URL names describes it.
pub(super) enum Source {
    Table(LeaseTable),
    #[cfg(feature = "aws")]
    Admiral(Admiral),
    Swift(SwiftLease),
}

impl Source {
    /// Returns the store of a URL; `None` for the lock of the log, which is none.
    ///
    /// # Errors
    /// The file that the URL names is none of a lease; this binary lacks the store.
    pub fn of(url: LeaseUrl) -> Result<Option<Source>, CliError> {
        match url {
            LeaseUrl::File => Ok(None),
            LeaseUrl::Table(table) => Ok(Some(Source::Table(*table))),
            LeaseUrl::Swift(lease) => Ok(Some(Source::Swift(*lease))),
            #[cfg(feature = "aws")]
            LeaseUrl::Admiral(path) => {
                let of = Admiral::load(&path).map_err(|error| CliError::Usage(format!("--lease admiral:{error}")))?;
                Ok(Some(Source::Admiral(of)))
            }
            #[cfg(not(feature = "aws"))]
            LeaseUrl::Admiral(_) => Err(without_aws()),
        }
    }

    /// Time for which an unchanged record protects its owner.
    pub fn duration(&self) -> Duration {
        match self {
            Source::Table(table) => table.duration,
            #[cfg(feature = "aws")]
            Source::Admiral(of) => of.duration(),
            Source::Swift(lease) => lease.duration,
        }
    }

    /// Interval of renewals.
    pub fn heartbeat(&self) -> Duration {
        match self {
            Source::Table(table) => table.heartbeat,
            #[cfg(feature = "aws")]
            Source::Admiral(of) => of.heartbeat(),
            Source::Swift(lease) => lease.heartbeat,
        }
    }

    /// Opens the store for the process `me`, reached at `address`.
    ///
    /// # Errors
    /// The table, the item or the object is not one for leases, or this binary lacks the store.
    pub fn open(&self, me: &str, address: &str) -> Result<Box<dyn Store>, CliError> {
        /// Time for the first read, which also finds region and credentials.
        const FIRST: Duration = Duration::from_secs(5);
        let mut store: Box<dyn Store> = match self {
            Source::Swift(lease) => {
                let store = SwiftStore::new(lease.clone(), me.to_string());
                Box::new(store.map_err(|error| CliError::Usage(format!("--lease: {error}")))?)
            }
            other => other.in_dynamodb(me, address)?,
        };
        match store.read(FIRST) {
            Err(StoreError::Unfit(reason)) => Err(CliError::Failed(format!("--lease: {reason}"))),
            // It may come, and an active one may go on meanwhile.
            Ok(_) | Err(StoreError::Failed(_)) => Ok(store),
        }
    }

    #[cfg(feature = "aws")]
    fn in_dynamodb(&self, me: &str, address: &str) -> Result<Box<dyn Store>, CliError> {
        use crate::election::dynamodb::DynamoDb;

        let store = match self {
            Source::Table(table) => DynamoDb::new(table.clone(), me.to_string(), address.as_bytes().to_vec()),
            Source::Admiral(of) => DynamoDb::of_admiral(of.clone(), me.to_string()),
            Source::Swift(_) => return Err(CliError::Failed("--lease swift: is not in DynamoDB".into())),
        };
        Ok(Box::new(store.map_err(CliError::failed)?))
    }

    #[cfg(not(feature = "aws"))]
    fn in_dynamodb(&self, _: &str, _: &str) -> Result<Box<dyn Store>, CliError> {
        Err(without_aws())
    }
}

#[cfg(not(feature = "aws"))]
fn without_aws() -> CliError {
    CliError::Usage(format!("--lease: {}", super::fleet::choose::WITHOUT_AWS))
}
