//! A group of EC2 instances.
//!
//! Identity, notices and credentials come from the instance metadata service, everything else from the Auto Scaling service;
//! EC2 is asked only for what those two do not tell. Calls are made on the thread that asks, one at a time, each with time
//! limits, within a budget, and never repeated by the SDK: [`scaling`](super::scaling) reads back first.

mod api;
mod cloud;
pub mod cloudwatch;
mod group;
mod identity;
mod imds;
mod lifecycle;
mod notices;
pub mod session;
pub mod status;
#[cfg(test)]
mod tests;

use super::back_off::BackOff;
use super::scaling::farewell::{Farewell, Next};
use super::{Capacity, Description, Fleet, FleetError, Identity, Notice, Reason};
use cloud::Cloud;
use group::Sightings;
use jiff::Timestamp;
use lifecycle::{Hooks, Transition};
use session::Endpoints;
use std::time::{Duration, Instant};

/// The metadata service is asked this often whether the instance is going to be ended, as AWS advises.
const NOTICE_EVERY: Duration = Duration::from_secs(5);
/// The scaling service is asked this often for the group; its limits are shared by all instances of the account.
const DESCRIBE_EVERY: Duration = Duration::from_secs(60);
/// Time that an instance without a terminating hook has: the system is shut down at once.
const UNHOOKED: Duration = Duration::from_secs(30);
/// Pauses, and attempts, to find out the group where the metadata service does not tell.
const PAUSE_FIRST_NS: u64 = 500_000_000;
const PAUSE_MOST_NS: u64 = 8_000_000_000;
const PATIENCE: u32 = 6;
/// Time for the group to begin to wait with an instance that has been told to end.
const WAIT_BEGINS: Duration = Duration::from_secs(20);

/// An instance that has been up for longer than this has not just been launched.
const LEAD_MOST: Duration = Duration::from_secs(1800);

/// This instance in its group.
pub struct Aws {
    cloud: Cloud,
    identity: Identity,
    hooks: Hooks,
    sightings: Sightings,
    farewell: Farewell,
    began: Instant,
    ready: bool,
    /// It has asked for its own end: that it is going to be ended is no news.
    leaving: bool,
    /// The group's notice, once there was one.
    terminating: Option<(Reason, Option<Instant>)>,
    released: bool,
}

impl Aws {
    /// Finds out who this is.
    ///
    /// # Errors
    /// There is no metadata service, or the instance is in no group.
    pub fn open(endpoints: Endpoints) -> Result<Aws, FleetError> {
        let mut cloud = Cloud::open(endpoints)?;
        let instance = identity::instance(&cloud)?;
        let mut back_off = BackOff::new(PAUSE_FIRST_NS, PAUSE_MOST_NS);
        let group = loop {
            match identity::group(&mut cloud, &instance) {
                Err(error @ (FleetError::Busy { .. } | FleetError::Unreachable { .. }))
                    if back_off.failures() < PATIENCE =>
                {
                    if back_off.failures() == 0 {
                        log::warn!("cannot find out the group of {instance}, trying again: {error}");
                    }
                    std::thread::sleep(Duration::from_nanos(back_off.pause_ns(fastrand::f64())));
                }
                result => break result?,
            }
        };
        Ok(Aws {
            cloud,
            identity: Identity { instance, group },
            hooks: Hooks::default(),
            sightings: Sightings::default(),
            farewell: Farewell::default(),
            began: Instant::now(),
            ready: false,
            leaving: false,
            terminating: None,
            released: false,
        })
    }

    /// The region that the instance is in.
    pub fn region(&self) -> &str {
        &self.cloud.session.region
    }

    /// The availability zone and the private address.
    ///
    /// # Errors
    /// The metadata service cannot be reached.
    pub fn place(&self) -> Result<(Option<String>, Option<String>), FleetError> {
        Ok((self.cloud.metadata("placement/availability-zone")?, self.cloud.metadata("local-ipv4")?))
    }

    /// The scale and the roll threshold, where the instance's tags have them.
    ///
    /// # Errors
    /// The tags cannot be had.
    pub fn thresholds(&mut self) -> Result<(Option<String>, Option<String>), FleetError> {
        let instance = self.identity.instance.clone();
        let scale = identity::tag(&mut self.cloud, &instance, identity::SCALE_TAG)?;
        Ok((scale, identity::tag(&mut self.cloud, &instance, identity::ROLL_TAG)?))
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The lead time of this instance itself, which is that of its group for want of a better one.
    fn own_lead(&self) -> Option<Duration> {
        let document = self.cloud.get("dynamic/instance-identity/document").ok()??;
        let launched = notices::launched(&document)?;
        // After a restart of the process alone it is no lead time.
        let since_boot = Duration::try_from(Timestamp::now().duration_since(launched)).ok()?;
        (since_boot < LEAD_MOST).then_some(since_boot)
    }

    fn complete(&mut self, transition: Transition) -> Result<bool, FleetError> {
        let Identity { instance, group } = &self.identity;
        self.hooks.complete(&mut self.cloud, group, instance, transition)
    }

    /// Says that the group need not wait with the end of this instance, once it does.
    fn let_go(&mut self) -> Result<(), FleetError> {
        let until = Instant::now().checked_add(WAIT_BEGINS);
        while !self.complete(Transition::Terminating)? {
            if until.is_none_or(|until| Instant::now() >= until) {
                // The hook's own time ends the wait.
                log::info!("the group {} does not wait with the end of this instance", self.identity.group);
                return Ok(());
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        Ok(())
    }

    fn terminate(&mut self, instance: &str, decrement: bool) -> Result<(), FleetError> {
        self.cloud.scaling(&api::TERMINATE, |client| {
            let call = client.terminate_instance_in_auto_scaling_group().instance_id(instance);
            call.should_decrement_desired_capacity(decrement).send()
        })?;
        Ok(())
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
        // The service does not say in which order it has launched them: one more, as in the paper.
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
                let reason = "the group has not begun to wait for this instance".to_string();
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
            // The launching hook holds back the way into the pool too.
            self.complete(Transition::Launching)?;
            self.ready = true;
        } else if !aside {
            // Taken from the pool into service, it is launched again.
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
                    log::debug!("cannot find out how long the group waits: {error}");
                    None
                }
            };
            self.terminating = Some((reason, until));
        }
        if !self.released
            && let Err(error) = self.hooks.beat(&mut self.cloud, &group, &instance, Transition::Terminating)
        {
            log::debug!("cannot ask the group to wait on: {error}");
        }
        let told = self.terminating.as_ref();
        Ok(told.map(|(reason, until)| Notice {
            reason: *reason,
            left: until.map(|until| until.saturating_duration_since(Instant::now())),
        }))
    }

    fn released(&mut self) -> Result<(), FleetError> {
        self.released = true;
        if self.terminating.is_none() {
            // Taken back by EC2, not by the group: another is to be launched now rather than when this one is gone.
            let instance = self.identity.instance.clone();
            self.replace(&instance)?;
            self.leaving = true;
        }
        self.let_go()
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
        match self.farewell.next(&instance, &group, self.now_ns()) {
            Next::Done => {}
            Next::Keep(reason) => return Err(FleetError::Refused(reason)),
            Next::Wait => {
                let reason = "an earlier request may still take effect".to_string();
                return Err(FleetError::Busy { call: api::TERMINATE.name, reason });
            }
            step @ (Next::Terminate | Next::Surplus) => {
                // Ending it by name does not heed the protection; it is lifted so that nothing else is kept by it.
                match self.protect(false) {
                    Ok(()) | Err(FleetError::Refused(_)) => {}
                    Err(error) => return Err(error),
                }
                self.leaving = true;
                if let Err(error) = self.terminate(&instance, step == Next::Terminate) {
                    let now_ns = self.now_ns();
                    self.farewell.failed(&error, now_ns);
                    self.leaving = matches!(error, FleetError::Unsure { .. });
                    return Err(error);
                }
            }
        }
        self.leaving = true;
        if self.hooks.any(&mut self.cloud, &self.identity.group, Transition::Terminating)?
            && let Err(error) = self.let_go()
        {
            log::warn!("the group waits with the end of this instance until its hook's time is over: {error}");
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
