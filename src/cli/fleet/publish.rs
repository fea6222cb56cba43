//! Publishes metrics to CloudWatch if the fleet is on AWS.

use super::choose::Chosen;
use crate::cli::CliError;
use crate::config::{Settings, options};
#[cfg(feature = "aws")]
use crate::fleet::Identity;
#[cfg(feature = "aws")]
use crate::fleet::aws::cloudwatch::{self, Publisher};
use crate::metrics::Tap;
#[cfg(feature = "aws")]
use std::time::Duration;

/// Default publishing interval.
#[cfg(feature = "aws")]
const EVERY: Duration = Duration::from_secs(60);

/// Whether this process publishes its metrics, under which identity and how often.
pub struct Publishing {
    #[cfg(feature = "aws")]
    as_whom: Option<(Identity, Duration)>,
}

/// Publishes until dropped.
pub struct Published {
    #[cfg(feature = "aws")]
    _publisher: Option<Publisher>,
}

impl Publishing {
    /// Derives the publishing options from settings and fleet.
    ///
    /// # Errors
    /// Publishing is requested for a process that is not on AWS.
    pub fn of(settings: &Settings, chosen: &Chosen) -> Result<Publishing, CliError> {
        let every = settings.find(&options::CLOUDWATCH)?;
        match chosen {
            #[cfg(feature = "aws")]
            Chosen::Aws(aws) => {
                let every = every.unwrap_or(EVERY);
                let as_whom = (!every.is_zero()).then(|| (crate::fleet::Fleet::identity(aws.as_ref()).clone(), every));
                Ok(Publishing { as_whom })
            }
            _ if every.is_some_and(|every| !every.is_zero()) => Err(CliError::Usage(
                "--cloudwatch: only an instance of an Auto Scaling group publishes metrics; \
                     give --fleet aws as well"
                    .to_string(),
            )),
            _ => Ok(Publishing {
                #[cfg(feature = "aws")]
                as_whom: None,
            }),
        }
    }

    /// Starts publishing the values of `tap`.
    ///
    /// # Errors
    /// The system has no thread left.
    #[cfg(feature = "aws")]
    pub fn start(self, tap: Option<Tap>) -> Result<Published, CliError> {
        let _publisher = match self.as_whom.zip(tap) {
            Some(((identity, every), tap)) => {
                tracing::info!("metrics go to CloudWatch every {every:?}");
                Some(cloudwatch::start(tap, identity, every).map_err(CliError::failed)?)
            }
            None => None,
        };
        Ok(Published { _publisher })
    }

    /// Publishes nothing: this binary was built without AWS.
    ///
    /// # Errors
    /// None.
    #[cfg(not(feature = "aws"))]
    pub fn start(self, _: Option<Tap>) -> Result<Published, CliError> {
        Ok(Published {})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Program;

    #[test]
    fn metrics_are_published_on_aws_alone() {
        let of = |time: &str| {
            let flag = |name: &str| (name == options::CLOUDWATCH.spec.name).then(|| time.to_string());
            let settings =
                Settings::resolve(Program::Tick, &flag, &|_| None, &|_| Ok(String::new())).expect("settings");
            Publishing::of(&settings, &Chosen::Nobody)
        };
        assert!(of("0").is_ok());
        assert!(of("30s").err().is_some_and(|error| error.to_string().contains("--fleet aws")));
    }
}
