//! A fleet that only logs the calls it receives.

use super::{Capacity, Description, Fleet, FleetError, Identity, Notice};

/// Fleet of a node without a group: logs requests and grants them.
#[derive(Debug)]
pub struct DryRun {
    identity: Identity,
    desired: u32,
}

impl DryRun {
    pub fn new(instance: &str) -> DryRun {
        DryRun { identity: Identity { instance: instance.to_string(), group: String::new() }, desired: 1 }
    }
}

impl Fleet for DryRun {
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

    fn at_least(&mut self, desired: u32) -> Result<Capacity, FleetError> {
        if desired > self.desired {
            tracing::info!("dry run: would raise the desired capacity from {} to {desired}", self.desired);
            self.desired = desired;
        }
        Ok(Capacity::Granted { desired: self.desired })
    }

    fn ready(&mut self) -> Result<(), FleetError> {
        tracing::info!("dry run: {} is ready", self.identity.instance);
        Ok(())
    }

    fn protect(&mut self, on: bool) -> Result<(), FleetError> {
        let word = if on { "protect" } else { "no longer protect" };
        tracing::info!("dry run: would {word} {} from scale-in", self.identity.instance);
        Ok(())
    }

    fn notice(&mut self) -> Result<Option<Notice>, FleetError> {
        Ok(None)
    }

    fn released(&mut self) -> Result<(), FleetError> {
        tracing::info!("dry run: would release {}", self.identity.instance);
        Ok(())
    }

    fn replace(&mut self, instance: &str) -> Result<(), FleetError> {
        tracing::info!("dry run: would replace {instance}");
        Ok(())
    }

    fn terminate_me(&mut self) -> Result<(), FleetError> {
        tracing::info!("dry run: would terminate {} and take one off the desired capacity", self.identity.instance);
        self.desired = self.desired.saturating_sub(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_twice_is_asking_once() {
        let mut fleet = DryRun::new("n1");
        for _ in 0..2 {
            assert_eq!(fleet.at_least(3).unwrap(), Capacity::Granted { desired: 3 });
        }
        assert_eq!(fleet.at_least(2).unwrap(), Capacity::Granted { desired: 3 });
    }
}
