//! Lifecycle hooks: the group pauses an instance's launch or termination until the instance completes the hook.

use super::api;
use super::cloud::Cloud;
use crate::fleet::FleetError;
use std::time::{Duration, Instant};

/// Transition at which a hook pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    Launching,
    Terminating,
}

impl Transition {
    const fn name(self) -> &'static str {
        match self {
            Transition::Launching => "autoscaling:EC2_INSTANCE_LAUNCHING",
            Transition::Terminating => "autoscaling:EC2_INSTANCE_TERMINATING",
        }
    }
}

/// A lifecycle hook; `longest` is its total timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hook {
    name: String,
    transition: String,
    heartbeat: Duration,
    longest: Duration,
}

/// Longest wait of the service however many heartbeats it gets: in heartbeats, and in total.
const MAX_HEARTBEATS: u32 = 100;
const LONGEST: Duration = Duration::from_secs(48 * 3600);

/// Hooks of one group, looked up once.
#[derive(Debug, Default)]
pub struct Hooks {
    known: Option<Vec<Hook>>,
    /// Time of the last heartbeat.
    beat: Option<Instant>,
}

impl Hooks {
    fn of(&mut self, cloud: &mut Cloud, group: &str, transition: Transition) -> Result<Vec<Hook>, FleetError> {
        if self.known.is_none() {
            let answer = cloud.scaling(&api::DESCRIBE_HOOKS, |client| {
                client.describe_lifecycle_hooks().auto_scaling_group_name(group).send()
            })?;
            let seconds =
                |seconds: Option<i32>| Duration::from_secs(seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or(0));
            let hook = |hook: &aws_sdk_autoscaling::types::LifecycleHook| {
                let heartbeat = seconds(hook.heartbeat_timeout());
                let most = heartbeat.saturating_mul(MAX_HEARTBEATS).min(LONGEST);
                let longest = Some(seconds(hook.global_timeout())).filter(|time| !time.is_zero());
                Some(Hook {
                    name: hook.lifecycle_hook_name()?.to_string(),
                    transition: hook.lifecycle_transition()?.to_string(),
                    heartbeat,
                    longest: longest.unwrap_or(most),
                })
            };
            self.known = Some(answer.lifecycle_hooks().iter().filter_map(hook).collect());
        }
        let known = self.known.iter().flatten();
        Ok(known.filter(|hook| hook.transition == transition.name()).cloned().collect())
    }

    /// Returns whether the group has a hook at this transition.
    ///
    /// # Errors
    /// The call fails.
    pub fn any(&mut self, cloud: &mut Cloud, group: &str, transition: Transition) -> Result<bool, FleetError> {
        Ok(!self.of(cloud, group, transition)?.is_empty())
    }

    /// Returns the longest wait at this transition; `None` without a hook.
    ///
    /// # Errors
    /// The call fails.
    pub fn longest(
        &mut self,
        cloud: &mut Cloud,
        group: &str,
        transition: Transition,
    ) -> Result<Option<Duration>, FleetError> {
        Ok(self.of(cloud, group, transition)?.iter().map(|hook| hook.longest).max())
    }

    /// Completes the hooks of this transition. Returns false if one of them is not waiting (yet, or any more).
    ///
    /// # Errors
    /// The call fails.
    pub fn complete(
        &mut self,
        cloud: &mut Cloud,
        group: &str,
        instance: &str,
        transition: Transition,
    ) -> Result<bool, FleetError> {
        let mut all = true;
        for hook in self.of(cloud, group, transition)? {
            let result = cloud.scaling(&api::COMPLETE, |client| {
                let call = client.complete_lifecycle_action().auto_scaling_group_name(group).instance_id(instance);
                call.lifecycle_hook_name(&hook.name).lifecycle_action_result("CONTINUE").send()
            });
            match result {
                Ok(_) => tracing::info!("completed the lifecycle action of hook {} for group {group}", hook.name),
                Err(FleetError::Refused(reason)) => {
                    tracing::debug!(%reason, "{}", hook.name);
                    all = false;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Sends heartbeats to extend the wait, once a third of the shortest timeout has passed since the last.
    ///
    /// # Errors
    /// The call fails.
    pub fn beat(
        &mut self,
        cloud: &mut Cloud,
        group: &str,
        instance: &str,
        transition: Transition,
    ) -> Result<(), FleetError> {
        let hooks = self.of(cloud, group, transition)?;
        let Some(shortest) = hooks.iter().map(|hook| hook.heartbeat).min() else { return Ok(()) };
        let beat = *self.beat.get_or_insert_with(Instant::now);
        if beat.elapsed() < shortest / 3 {
            return Ok(());
        }
        self.beat = Some(Instant::now());
        for hook in hooks {
            cloud.scaling(&api::HEARTBEAT, |client| {
                let call = client.record_lifecycle_action_heartbeat().auto_scaling_group_name(group);
                call.lifecycle_hook_name(&hook.name).instance_id(instance).send()
            })?;
        }
        Ok(())
    }
}
