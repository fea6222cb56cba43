//! Which fleet a process belongs to.

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

/// What `--fleet` has come to.
pub enum Chosen {
    /// A supervisor on this machine.
    Local(Box<Local>),
    /// The Auto Scaling group that this instance is in.
    #[cfg(feature = "aws")]
    Aws(Box<Aws>),
    /// None.
    Nobody,
}

/// What a binary says that was built without a fleet that is asked for.
pub const WITHOUT_AWS: &str =
    "this elastick was built without AWS: build it with `cargo build --release --features aws`";

/// The fleet that the settings name. On AWS the instance's metadata are asked.
///
/// # Errors
/// It is not there, or this process is not one of its own.
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
                    "--fleet local: no `elastick fleet` started this process: {FLEET_VARIABLE} is not set"
                ))
            })?;
            local(text.parse().map_err(|reason| CliError::Usage(format!("{FLEET_VARIABLE}: {reason}")))?)
        }
        FleetKind::At(address) => {
            // A supervisor knows the processes that it has started, and no others.
            let is_instance =
                std::env::var_os(INSTANCE_VARIABLE).is_some() && std::env::var_os(GROUP_VARIABLE).is_some();
            if !is_instance {
                return Err(CliError::Usage(format!(
                    "--fleet {address}: this process is no instance of that fleet. A fleet knows the processes that it has \
                     started: start this one with `elastick fleet -- elastick ...`, or leave --fleet out. \
                     `elastick fleet status --fleet {address}` shows the fleet"
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
    log::info!("instance {} of group {} in {zone}, address {address}", identity.instance, identity.group);
    Ok(Chosen::Aws(Box::new(aws)))
}

#[cfg(not(feature = "aws"))]
fn aws() -> Result<Chosen, CliError> {
    Err(CliError::Usage(format!("--fleet aws: {WITHOUT_AWS}")))
}

/// Ceilings of the pauses between attempts to reach the fleet.
const PAUSE_FIRST_NS: u64 = 1_000_000_000;
const PAUSE_MOST_NS: u64 = 60_000_000_000;

/// For a process that neither grows nor shrinks its group: tells the fleet that it can do its work, and the log when the
/// fleet is going to end it. Nothing waits for that; the thread ends with the process.
///
/// # Errors
/// No thread can be had.
pub fn attend(mut fleet: Box<dyn Fleet>) -> std::io::Result<()> {
    let attend = move || {
        let mut back_off = BackOff::new(PAUSE_FIRST_NS, PAUSE_MOST_NS);
        while let Err(error) = fleet.ready() {
            if back_off.failures() == 0 {
                log::warn!("cannot tell the fleet that this process is ready, trying again: {error}");
            }
            std::thread::sleep(Duration::from_nanos(back_off.pause_ns(fastrand::f64())));
        }
        loop {
            std::thread::sleep(fleet.notice_every());
            let Ok(Some(notice)) = fleet.notice() else { continue };
            log::warn!("the fleet is going to end this process: {}", notice.reason.name());
            // Its end is in order whenever it comes, and nobody has to wait for it. What is only likely is left to come.
            if matches!(notice.reason, Reason::Terminating | Reason::Unhealthy)
                && let Err(error) = fleet.released()
            {
                log::warn!("cannot tell the fleet to go on: {error}");
            }
            return;
        }
    };
    crate::sys::stack::thread("fleet".into()).spawn(attend).map(drop)
}

impl Chosen {
    /// The fleet itself.
    pub fn fleet(self) -> Option<Box<dyn Fleet>> {
        match self {
            Chosen::Local(local) => Some(local),
            #[cfg(feature = "aws")]
            Chosen::Aws(aws) => Some(aws),
            Chosen::Nobody => None,
        }
    }

    /// Gives settings that nobody has chosen the values that the fleet has for them: the thresholds of the instance's tags,
    /// and its id as the node's name.
    ///
    /// # Errors
    /// A tag's value is none of the option's.
    #[cfg_attr(not(feature = "aws"), expect(unused_variables, reason = "only AWS has values for settings"))]
    pub fn supply(&mut self, settings: &mut Settings) -> Result<(), CliError> {
        #[cfg(feature = "aws")]
        if let Chosen::Aws(aws) = self {
            let Identity { instance, group } = aws.identity();
            // An instance may have nodes in several queues; the tickerplant takes one name for one node.
            let name = match settings.find(&options::QUEUE)?.filter(|queue| queue != group) {
                Some(queue) => format!("{instance}.{queue}"),
                None => instance.clone(),
            };
            settings.supply(&options::NODE, &name, "instance id")?;
            let missing = [settings.is_default(&options::SCALE), settings.is_default(&options::ROLL_THRESHOLD)];
            if missing.contains(&true) {
                let (scale, roll) = aws.thresholds().unwrap_or_else(|error| {
                    log::warn!(
                        "the thresholds are the defaults, for the tags of this instance cannot be read: {error}"
                    );
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
