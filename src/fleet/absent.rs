//! The fleet of a node without one: nobody starts or ends nodes.

use super::{Capacity, Description, Fleet, FleetError, Identity};

/// Stands for the fleet of a node that has none. It grants requests, because somebody may start the node by hand.
#[derive(Debug)]
pub struct NoFleet {
    identity: Identity,
    desired: u32,
}

impl NoFleet {
    pub fn new(instance: &str) -> NoFleet {
        NoFleet { identity: Identity { instance: instance.to_string(), group: String::new() }, desired: 1 }
    }
}

impl Fleet for NoFleet {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn describe(&mut self) -> Result<Description, FleetError> {
        Ok(Description {
            group: self.identity.group.clone(),
            min: 0,
            desired: self.desired,
            max: u32::MAX,
            ..Description::default()
        })
    }

    fn exists(&self) -> bool {
        false
    }

    fn at_least(&mut self, desired: u32) -> Result<Capacity, FleetError> {
        self.desired = self.desired.max(desired);
        Ok(Capacity::Granted { desired: self.desired })
    }

    fn replace(&mut self, _: &str) -> Result<(), FleetError> {
        Ok(())
    }

    fn terminate_me(&mut self) -> Result<(), FleetError> {
        self.desired = self.desired.saturating_sub(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_twice_is_asking_once() {
        let mut fleet = NoFleet::new("n1");
        for _ in 0..2 {
            assert_eq!(fleet.at_least(3).unwrap(), Capacity::Granted { desired: 3 });
        }
        assert_eq!(fleet.at_least(2).unwrap(), Capacity::Granted { desired: 3 });
    }
}
