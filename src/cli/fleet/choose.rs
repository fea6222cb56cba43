//! Chooses the fleet of a process.

use crate::cli::CliError;
use crate::config::units::FleetKind;
use crate::config::{Address, Settings, options};
#[cfg(feature = "aws")]
use crate::fleet::Identity;
#[cfg(feature = "aws")]
use crate::fleet::aws::{Aws, session::Endpoints};
use crate::fleet::back_off::BackOff;
use crate::fleet::local::{FLEET_VARIABLE, GROUP_VARIABLE, INSTANCE_VARIABLE, Local};
use crate::fleet::{Fleet, Reason};
use std::time::Duration;

/// Fleet chosen by `--fleet`.
pub enum Chosen {
    /// A supervisor on this machine.
    Local(Box<Local>),
    /// The Auto Scaling group of this instance.
    #[cfg(feature = "aws")]
    Aws(Box<Aws>),
    /// No fleet.
    Nobody,
}

/// Error text of a binary that was built without the requested fleet.
pub const WITHOUT_AWS: &str =
    "this elastick was built without AWS: build it with `cargo build --release --features aws`";

/// Returns the fleet of the settings. On AWS this reads the instance metadata.
///
/// # Errors
/// The fleet is not reachable, or this process does not belong to it.
pub fn choose(settings: &Settings) -> Result<Chosen, CliError> {
    match settings.get(&options::FLEET)? {
        FleetKind::Nobody => Ok(Chosen::Nobody),
        FleetKind::Auto => match std::env::var(FLEET_VARIABLE).ok().and_then(|text| text.parse().ok()) {
            Some(address) => local(address),
            None => Ok(Chosen::Nobody),
        },
        FleetKind::Local => {
            let text = std::env::var(FLEET_VARIABLE).map_err(|_| {
                CliError::Usage(format!(
                    "--fleet local: this process was not started by `elastick fleet`: {FLEET_VARIABLE} is not set"
                ))
            })?;
            local(text.parse().map_err(|reason| CliError::Usage(format!("{FLEET_VARIABLE}: {reason}")))?)
        }
        FleetKind::At(address) => {
            // A supervisor accepts only processes that it started.
            let is_instance =
                std::env::var_os(INSTANCE_VARIABLE).is_some() && std::env::var_os(GROUP_VARIABLE).is_some();
            if !is_instance {
                return Err(CliError::Usage(format!(
                    "--fleet {address}: this process is not an instance of that fleet, because the fleet did not \
                     start it: start it with `elastick fleet -- elastick ...`, or leave --fleet out. `elastick \
                     fleet status --fleet {address}` shows the fleet"
                )));
            }
            local(address)
        }
        FleetKind::Aws => aws(),
    }
}

fn local(address: Address) -> Result<Chosen, CliError> {
    Ok(Chosen::Local(Box::new(Local::from_environment(address).map_err(CliError::failed)?)))
}

#[cfg(feature = "aws")]
fn aws() -> Result<Chosen, CliError> {
    let aws =
        Aws::open(Endpoints::from_environment()).map_err(|error| CliError::Failed(format!("--fleet aws: {error}")))?;
    let identity = aws.identity();
    let (zone, address) = aws.place().map_err(CliError::failed)?;
    let [zone, address] = [zone, address].map(|text| text.unwrap_or_else(|| "?".to_string()));
    tracing::info!(instance = %identity.instance, group = %identity.group, %zone, %address, "this instance is in an Auto Scaling group");
    Ok(Chosen::Aws(Box::new(aws)))
}

#[cfg(not(feature = "aws"))]
fn aws() -> Result<Chosen, CliError> {
    Err(CliError::Usage(format!("--fleet aws: {WITHOUT_AWS}")))
}

/// Upper bounds of the first pause, and of any pause, between attempts to reach the fleet; pauses are random below a doubling bound.
const PAUSE_FIRST_NS: u64 = 1_000_000_000;
const MAX_PAUSE_NS: u64 = 60_000_000_000;

/// For a process that does not scale its group: reports to the fleet that it is in service, and logs when the fleet is about to end it.
/// Runs on a background thread that ends with the process.
///
/// # Errors
/// The system has no thread left.
pub fn watch_notices(mut fleet: Box<dyn Fleet>) -> std::io::Result<()> {
    let watch_notices = move || {
        let mut back_off = BackOff::new(PAUSE_FIRST_NS, MAX_PAUSE_NS);
        while let Err(error) = fleet.ready() {
            if back_off.failures() == 0 {
                tracing::warn!(%error, "cannot report to the fleet that this process is ready; retrying");
            }
            std::thread::sleep(Duration::from_nanos(back_off.pause_ns(fastrand::f64())));
        }
        loop {
            std::thread::sleep(fleet.notice_every());
            let Ok(Some(notice)) = fleet.notice() else { continue };
            tracing::warn!("the fleet is about to terminate this process: {}", notice.reason.name());
            // This process may end at any time, so complete the lifecycle action at once. A notice of a merely probable end is only
            // logged.
            if matches!(notice.reason, Reason::Terminating | Reason::Unhealthy)
                && let Err(error) = fleet.released()
            {
                tracing::warn!(%error, "cannot complete the fleet's lifecycle action");
            }
            return;
        }
    };
    crate::sys::stack::thread("fleet".into()).spawn(watch_notices).map(drop)
}

impl Chosen {
    /// Returns the fleet back end, if there is one.
    pub fn fleet(self) -> Option<Box<dyn Fleet>> {
        match self {
            Chosen::Local(local) => Some(local),
            #[cfg(feature = "aws")]
            Chosen::Aws(aws) => Some(aws),
            Chosen::Nobody => None,
        }
    }

    /// Fills settings left unset with values of the fleet: thresholds from the instance's tags, and the instance id as the node's name.
    ///
    /// # Errors
    /// A tag has a value that its option rejects.
    #[cfg_attr(not(feature = "aws"), expect(unused_variables, reason = "only AWS has values for settings"))]
    pub fn supply(&mut self, settings: &mut Settings) -> Result<(), CliError> {
        #[cfg(feature = "aws")]
        if let Chosen::Aws(aws) = self {
            let Identity { instance, group } = aws.identity();
            // An instance may run nodes of several queues, and the tickerplant allows a name only once.
            let name = match settings.find(&options::QUEUE)?.filter(|queue| queue != group) {
                Some(queue) => format!("{instance}.{queue}"),
                None => instance.clone(),
            };
            settings.supply(&options::NODE, &name, "instance id")?;
            let missing = [settings.is_default(&options::SCALE), settings.is_default(&options::ROLL_THRESHOLD)];
            if missing.contains(&true) {
                let (scale, roll) = aws.thresholds().unwrap_or_else(|error| {
                    tracing::warn!(%error, "cannot read this instance's tags: using the default thresholds");
                    (None, None)
                });
                if let Some(scale) = scale {
                    settings.supply(&options::SCALE, &scale, "tag SCALETHRESHOLD")?;
                }
                if let Some(roll) = roll {
                    settings.supply(&options::ROLL_THRESHOLD, &roll, "tag ROLLTHRESHOLD")?;
                }
            }
        }
        Ok(())
    }
}
