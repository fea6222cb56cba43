//! Back end for an EC2 Auto Scaling group.
//!
//! Identity, notices and credentials come from the instance metadata service, everything else from the Auto Scaling
//! service; EC2 is called only for what those two lack. Calls run on the calling thread, one at a time, each with time
//! limits and within a budget. The SDK never retries: [`scaling`](super::scaling) reads the group back first.

mod api;
mod cloud;
pub mod cloudwatch;
mod ec2;
mod group;
pub mod groups;
mod identity;
pub mod imds;
mod lifecycle;
mod notices;
pub mod session;
pub mod status;
#[cfg(test)]
mod tests;

use super::back_off::BackOff;
use super::scaling::termination::{Next, Termination};
use super::{Capacity, Description, Fleet, FleetError, Identity, Notice, Reason};
use cloud::Cloud;
use group::Sightings;
use jiff::Timestamp;
use lifecycle::{Hooks, Transition};
use session::Endpoints;
use std::time::{Duration, Instant};

/// Poll interval of the metadata service for notices, as AWS advises.
const NOTICE_EVERY: Duration = Duration::from_secs(5);
/// Poll interval of the scaling service, whose limits all instances of the account share.
const DESCRIBE_EVERY: Duration = Duration::from_secs(60);
/// Time left for an instance without a terminating hook, as the system shuts down at once.
const UNHOOKED: Duration = Duration::from_secs(30);
/// Pauses and attempts to look up the group.
const PAUSE_FIRST_NS: u64 = 500_000_000;
const MAX_PAUSE_NS: u64 = 8_000_000_000;
const MAX_LOOK_UPS: u32 = 6;
/// Time for the group to enter the wait of its terminating hook.
const WAIT_BEGINS: Duration = Duration::from_secs(20);

/// Longest plausible lead time: an instance that has been up for longer was not just launched.
const MAX_LEAD: Duration = Duration::from_secs(1800);

/// This instance in its group.
pub struct Aws {
    cloud: Cloud,
    identity: Identity,
    hooks: Hooks,
    sightings: Sightings,
    termination: Termination,
    began: Instant,
    ready: bool,
    /// The instance has requested its own termination, so a notice of it is expected.
    leaving: bool,
    /// Reason and deadline of the group's notice, once received.
    terminating: Option<(Reason, Option<Instant>)>,
    released: bool,
}

impl Aws {
    /// Identifies this instance and its group.
    ///
    /// # Errors
    /// There is no metadata service, or the instance is in no group.
    pub fn open(endpoints: Endpoints) -> Result<Aws, FleetError> {
        let mut cloud = Cloud::open(endpoints)?;
        let instance = identity::instance(&cloud)?;
        let mut back_off = BackOff::new(PAUSE_FIRST_NS, MAX_PAUSE_NS);
        let group = loop {
            match identity::group(&mut cloud, &instance) {
                Err(error @ (FleetError::Busy { .. } | FleetError::Unreachable { .. }))
                    if back_off.failures() < MAX_LOOK_UPS =>
                {
                    if back_off.failures() == 0 {
                        tracing::warn!(%error, "cannot find out the group of {instance}; retrying");
                    }
                    std::thread::sleep(Duration::from_nanos(back_off.pause_ns(fastrand::f64())));
                }
                result => break result?,
            }
        };
        Ok(Aws::with(cloud, Identity { instance, group }))
    }

    /// For a process that changes the capacity of a group in which it is not; `identity` names the group and no instance.
    ///
    /// # Errors
    /// There is no metadata service.
    pub fn of_group(endpoints: Endpoints, identity: Identity) -> Result<Aws, FleetError> {
        Ok(Aws::with(Cloud::open(endpoints)?, identity))
    }

    fn with(cloud: Cloud, identity: Identity) -> Aws {
        Aws {
            cloud,
            identity,
            hooks: Hooks::default(),
            sightings: Sightings::default(),
            termination: Termination::default(),
            began: Instant::now(),
            ready: false,
            leaving: false,
            terminating: None,
            released: false,
        }
    }

    /// Region of the instance.
    pub fn region(&self) -> &str {
        &self.cloud.session.region
    }

    /// Returns the availability zone and the private address.
    ///
    /// # Errors
    /// The metadata service is unreachable.
    pub fn place(&self) -> Result<(Option<String>, Option<String>), FleetError> {
        Ok((self.cloud.metadata("placement/availability-zone")?, self.cloud.metadata("local-ipv4")?))
    }

    /// Returns the scale and roll thresholds from the instance's tags, if present.
    ///
    /// # Errors
    /// The tags cannot be read.
    pub fn thresholds(&mut self) -> Result<(Option<String>, Option<String>), FleetError> {
        let instance = self.identity.instance.clone();
        let scale = identity::tag(&mut self.cloud, &instance, identity::SCALE_TAG)?;
        Ok((scale, identity::tag(&mut self.cloud, &instance, identity::ROLL_TAG)?))
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Lead time of this instance, used for the group while it has no measured one.
    fn own_lead(&self) -> Option<Duration> {
        let document = self.cloud.get("dynamic/instance-identity/document").ok()??;
        let launched = notices::launched(&document)?;
        // After a restart of the process alone, the uptime is no lead time.
        let since_boot = Duration::try_from(Timestamp::now().duration_since(launched)).ok()?;
        (since_boot < MAX_LEAD).then_some(since_boot)
    }

    fn complete(&mut self, transition: Transition) -> Result<bool, FleetError> {
        let Identity { instance, group } = &self.identity;
        self.hooks.complete(&mut self.cloud, group, instance, transition)
    }

    /// Completes the terminating hook, once the group waits in it.
    fn complete_termination(&mut self) -> Result<(), FleetError> {
        let until = Instant::now().checked_add(WAIT_BEGINS);
        while !self.complete(Transition::Terminating)? {
            if until.is_none_or(|until| Instant::now() >= until) {
                // The hook's own timeout ends the wait.
                tracing::info!("group {} did not start a termination hook for this instance", self.identity.group);
                return Ok(());
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        Ok(())
    }

    fn terminate(&mut self, instance: &str, decrement: bool) -> Result<(), FleetError> {
        group::terminate(&mut self.cloud, instance, decrement)
    }
}

impl Fleet for Aws {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn describe(&mut self) -> Result<Description, FleetError> {
        group::describe(&mut self.cloud, &self.identity.group, &mut self.sightings)
    }

    fn at_least(&mut self, desired: u32) -> Result<Capacity, FleetError> {
        group::at_least(&mut self.cloud, &self.identity.group, desired, &mut self.sightings)
    }

    fn one_more(&mut self) -> Result<u32, FleetError> {
        // The service does not report the launch order: request one more than desired, as in the paper.
        Ok(self.describe()?.desired.saturating_add(1))
    }

    fn ready(&mut self) -> Result<(), FleetError> {
        if self.ready {
            return Ok(());
        }
        if self.sightings.lead.is_none() {
            self.sightings.lead = self.own_lead();
        }
        if self.hooks.any(&mut self.cloud, &self.identity.group, Transition::Launching)? {
            let group = group::read(&mut self.cloud, &self.identity.group)?;
            let own = group.instances().iter().find(|instance| instance.instance_id() == Some(&self.identity.instance));
            let state = own.and_then(|instance| instance.lifecycle_state()).map_or("", |state| state.as_str());
            if state == "Pending" {
                let reason = "the group has not started the launch hook of this instance yet".to_string();
                return Err(FleetError::Busy { call: api::COMPLETE.name, reason });
            }
            if state == "Pending:Wait" {
                self.complete(Transition::Launching)?;
            }
        }
        self.ready = true;
        Ok(())
    }

    fn is_aside(&mut self) -> Result<bool, FleetError> {
        let aside = notices::target(&self.cloud)?.is_some_and(|state| state.starts_with("Warmed"));
        if aside && !self.ready {
            // The launching hook also delays entry into the warm pool.
            self.complete(Transition::Launching)?;
            self.ready = true;
        } else if !aside {
            // Moving from the pool into service is another launch, with its own hook.
            self.ready = false;
        }
        Ok(aside)
    }

    fn protect(&mut self, on: bool) -> Result<(), FleetError> {
        let Identity { instance, group } = &self.identity;
        self.cloud.scaling(&api::SET_PROTECTION, |client| {
            let call = client.set_instance_protection().auto_scaling_group_name(group).instance_ids(instance);
            call.protected_from_scale_in(on).send()
        })?;
        Ok(())
    }

    fn notice(&mut self) -> Result<Option<Notice>, FleetError> {
        if self.leaving {
            return Ok(None);
        }
        let notice = notices::read(&self.cloud)?;
        let Some(Notice { reason: Reason::Terminating, .. }) = notice else { return Ok(notice) };
        let Identity { instance, group } = self.identity.clone();
        if self.terminating.is_none() {
            let reason = match identity::is_unhealthy(&mut self.cloud, &instance) {
                Ok(true) => Reason::Unhealthy,
                Ok(false) | Err(_) => Reason::Terminating,
            };
            let now = Instant::now();
            let until = match self.hooks.longest(&mut self.cloud, &group, Transition::Terminating) {
                Ok(longest) => now.checked_add(longest.unwrap_or(UNHOOKED)),
                Err(error) => {
                    tracing::debug!(%error, "cannot read the timeout of the group's termination hook");
                    None
                }
            };
            self.terminating = Some((reason, until));
        }
        if !self.released
            && let Err(error) = self.hooks.beat(&mut self.cloud, &group, &instance, Transition::Terminating)
        {
            tracing::debug!(%error, "cannot extend the timeout of the group's termination hook");
        }
        let terminating = self.terminating.as_ref();
        Ok(terminating.map(|(reason, until)| Notice {
            reason: *reason,
            left: until.map(|until| until.saturating_duration_since(Instant::now())),
        }))
    }

    fn released(&mut self) -> Result<(), FleetError> {
        self.released = true;
        if self.terminating.is_none() {
            // EC2 reclaims the instance, not the group: launch the replacement now rather than after it is gone.
            let instance = self.identity.instance.clone();
            self.replace(&instance)?;
            self.leaving = true;
        }
        self.complete_termination()
    }

    fn replace(&mut self, instance: &str) -> Result<(), FleetError> {
        let group = self.describe()?;
        match group.members.iter().any(|member| member.instance == instance && member.counts()) {
            true => self.terminate(instance, false),
            false => Ok(()),
        }
    }

    fn terminate_me(&mut self) -> Result<(), FleetError> {
        let group = self.describe()?;
        let instance = self.identity.instance.clone();
        match self.termination.next(&instance, &group, self.now_ns()) {
            Next::Done => {}
            Next::Keep(reason) => return Err(FleetError::Refused(reason)),
            Next::Wait => {
                let reason = "an earlier request may still take effect".to_string();
                return Err(FleetError::Busy { call: api::TERMINATE.name, reason });
            }
            step @ (Next::Terminate | Next::Surplus) => {
                // Termination by name ignores scale-in protection; lift it all the same, so that it keeps nothing else from ending the instance.
                match self.protect(false) {
                    Ok(()) | Err(FleetError::Refused(_)) => {}
                    Err(error) => return Err(error),
                }
                self.leaving = true;
                if let Err(error) = self.terminate(&instance, step == Next::Terminate) {
                    let now_ns = self.now_ns();
                    self.termination.failed(&error, now_ns);
                    self.leaving = matches!(error, FleetError::Unsure { .. });
                    return Err(error);
                }
            }
        }
        self.leaving = true;
        if self.hooks.any(&mut self.cloud, &self.identity.group, Transition::Terminating)?
            && let Err(error) = self.complete_termination()
        {
            tracing::warn!(%error, "cannot complete the termination hook: the group will wait until its timeout");
        }
        Ok(())
    }

    fn why_missing(&mut self) -> Result<Option<String>, FleetError> {
        group::failure(&mut self.cloud, &self.identity.group)
    }

    fn notice_every(&self) -> Duration {
        NOTICE_EVERY
    }

    fn describe_every(&self) -> Duration {
        DESCRIBE_EVERY
    }
}
