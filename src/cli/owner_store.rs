//! Stores of owners' leases, by their URLs.

use super::CliError;
use crate::config::{OwnerPlace, OwnerUrl};
use crate::election::owner::{Directory, OwnerStore, Swift};
use crate::lease::owner::OwnerWindows;

/// Opens the store; calls nothing yet. `about`: text for readers of the store.
///
/// # Errors
/// This binary lacks the store.
pub(super) fn open(url: &OwnerUrl, about: &str) -> Result<Box<dyn OwnerStore>, CliError> {
    match &url.place {
        OwnerPlace::Directory(path) => Ok(Box::new(Directory::new(path.clone(), url.expire))),
        OwnerPlace::Swift(place) => Ok(Box::new(Swift::new(place.clone(), url.expire))),
        OwnerPlace::Table(table) => of_table(table, about),
    }
}

#[cfg(feature = "aws")]
fn of_table(table: &crate::config::LeaseTable, about: &str) -> Result<Box<dyn OwnerStore>, CliError> {
    use crate::election::owner::Table;
    use crate::election::{Store, StoreError, dynamodb::DynamoDb};

    let (table, about) = (table.clone(), about.as_bytes().to_vec());
    Ok(Box::new(Table::new(Box::new(move |owner| {
        let mut of = table.clone();
        of.key = format!("{}/{owner}", of.key);
        let store = DynamoDb::new(of, owner.to_string(), about.clone());
        let store = store.map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(Box::new(store) as Box<dyn Store>)
    }))))
}

#[cfg(not(feature = "aws"))]
fn of_table(_: &crate::config::LeaseTable, _: &str) -> Result<Box<dyn OwnerStore>, CliError> {
    Err(CliError::Usage(format!("--owner-lease: {}", super::fleet::choose::WITHOUT_AWS)))
}

/// Returns the windows of a URL.
pub(super) fn windows(url: &OwnerUrl) -> OwnerWindows {
    let [expire_ns, renew_ns, validity_ns, slack_ns] = url.windows_ns();
    OwnerWindows { expire_ns, renew_ns, validity_ns, slack_ns }
}
