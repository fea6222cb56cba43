//! Instances of the nodes' groups on which no node lives.

use super::Gc;
use super::finding::{Finding, State};
use crate::cli::CliError;
#[cfg(feature = "aws")]
use crate::fleet::Stage;
#[cfg(feature = "aws")]
use crate::fleet::aws::{groups::Groups, session::Endpoints};
use crate::protocol::owners::OwnerRow;
use std::collections::BTreeSet;
use std::time::Duration;

/// Groups of instances, as the fleet has them.
pub trait Instances {
    /// Returns the instances of a group that are in service.
    ///
    /// # Errors
    /// The fleet's, in words.
    fn in_service(&mut self, group: &str) -> Result<Vec<String>, CliError>;

    /// Ends an instance, for which the group launches another one.
    ///
    /// # Errors
    /// The fleet's, in words.
    fn replace(&mut self, instance: &str) -> Result<(), CliError>;
}

/// Opens the fleet of this region.
///
/// # Errors
/// There is no metadata service, or this binary lacks the back end.
#[cfg(feature = "aws")]
pub fn open() -> Result<Box<dyn Instances>, CliError> {
    Ok(Box::new(Groups::open(Endpoints::from_environment()).map_err(CliError::failed)?))
}

#[cfg(feature = "aws")]
impl Instances for Groups {
    fn in_service(&mut self, group: &str) -> Result<Vec<String>, CliError> {
        let members = self.members(group).map_err(CliError::failed)?;
        Ok(members.into_iter().filter(|of| of.stage == Stage::InService).map(|of| of.instance).collect())
    }

    fn replace(&mut self, instance: &str) -> Result<(), CliError> {
        Groups::replace(self, instance).map_err(CliError::failed)
    }
}

#[cfg(not(feature = "aws"))]
pub fn open() -> Result<Box<dyn Instances>, CliError> {
    Err(CliError::Usage(format!("--instances: {}", crate::cli::fleet::choose::WITHOUT_AWS)))
}

/// Group and name of an instance.
type Place = (Vec<u8>, String);

/// Instances in service of the groups of these nodes that have had no node for `empty_for`. An instance whose node is just restarting has none either.
///
/// # Errors
/// The fleet's and the tickerplant's.
pub fn find(gc: &mut Gc, empty_for: Duration) -> Result<Vec<Finding>, CliError> {
    let rows = gc.rows()?;
    let first = vacant(gc, &rows)?;
    if first.is_empty() {
        return Ok(Vec::new());
    }
    eprintln!("{} instances have no node; looking again after {empty_for:?}", first.len());
    std::thread::sleep(empty_for);
    let rows = gc.rows()?;
    let still = vacant(gc, &rows)?;
    let finding = |(group, instance): &Place| Finding {
        row: OwnerRow { node: instance.clone().into_bytes(), group: group.clone(), ..OwnerRow::default() },
        state: State::Vacant,
    };
    Ok(first.intersection(&still).map(finding).collect())
}

/// Whether no node says that it lives on this instance.
pub fn is_vacant(rows: &[OwnerRow], instance: &str) -> bool {
    rows.iter().all(|row| row.instance != instance.as_bytes())
}

/// Only groups from which nodes have joined count: another one is none of this cluster.
fn vacant(gc: &mut Gc, rows: &[OwnerRow]) -> Result<BTreeSet<Place>, CliError> {
    let groups: BTreeSet<&[u8]> = rows.iter().map(|row| row.group.as_slice()).filter(|of| !of.is_empty()).collect();
    let mut found = BTreeSet::new();
    for group in groups {
        let Some(instances) = &mut gc.instances else { break };
        for instance in instances.in_service(&String::from_utf8_lossy(group))? {
            if is_vacant(rows, &instance) {
                found.insert((group.to_vec(), instance));
            }
        }
    }
    Ok(found)
}
