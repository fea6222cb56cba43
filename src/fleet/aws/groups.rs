//! Groups of which this process need not be a member, for operators' tools.

use super::cloud::Cloud;
use super::group::{Sightings, describe, terminate};
use super::session::Endpoints;
use crate::fleet::{FleetError, Member};

/// The scaling service of this instance's region.
pub struct Groups(Cloud);

impl Groups {
    /// Finds region and credentials.
    ///
    /// # Errors
    /// There is no metadata service.
    pub fn open(endpoints: Endpoints) -> Result<Groups, FleetError> {
        Cloud::open(endpoints).map(Groups)
    }

    /// Returns the instances of a group; ages and lead times are not known.
    ///
    /// # Errors
    /// The call fails, or there is no such group.
    pub fn members(&mut self, group: &str) -> Result<Vec<Member>, FleetError> {
        describe(&mut self.0, group, &mut Sightings::default()).map(|group| group.members)
    }

    /// Ends an instance. The desired capacity stays, so the group launches another one.
    ///
    /// # Errors
    /// The call fails.
    pub fn replace(&mut self, instance: &str) -> Result<(), FleetError> {
        terminate(&mut self.0, instance, false)
    }
}
