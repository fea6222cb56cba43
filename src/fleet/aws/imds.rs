//! What the instance is told about itself: the metadata service, version 2 only (a token for every request).

use crate::fleet::FleetError;
use aws_config::imds::client::error::ImdsError;
use aws_config::imds::client::{Client, EndpointMode};
use aws_config::provider_config::ProviderConfig;
use aws_sdk_autoscaling::config::SharedHttpClient;
use std::error::Error;
use std::time::Duration;

/// Where the service is looked for instead, as in every AWS SDK.
pub const ENDPOINT_VARIABLE: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
const MODE_VARIABLE: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE";

const IPV4: &str = "http://169.254.169.254";
const IPV6: &str = "http://[fd00:ec2::254]";

/// The service is on the same host: what takes longer does not come.
const STEP: Duration = Duration::from_secs(1);
const WHOLE: Duration = Duration::from_secs(2);

const NOT_FOUND: u16 = 404;

/// A client of the metadata service.
#[derive(Clone, Debug)]
pub struct Imds {
    client: Client,
    endpoint: String,
}

impl Imds {
    /// The service of this instance, or the one that the environment names. Nothing is asked yet.
    ///
    /// # Errors
    /// The environment names what is no address.
    pub fn from_environment(http: SharedHttpClient) -> Result<Imds, FleetError> {
        let wrong =
            |variable: &str, reason: &dyn std::fmt::Display| FleetError::Protocol(format!("{variable}: {reason}"));
        let mode = match std::env::var(MODE_VARIABLE) {
            Ok(mode) => mode.parse().map_err(|error| wrong(MODE_VARIABLE, &error))?,
            Err(_) => EndpointMode::IpV4,
        };
        let usual = if matches!(mode, EndpointMode::IpV6) { IPV6 } else { IPV4 };
        let endpoint = std::env::var(ENDPOINT_VARIABLE).unwrap_or_else(|_| usual.to_string());
        // No profile is read: instances of one image must not differ by a file in somebody's home directory.
        let client = Client::builder()
            .configure(&ProviderConfig::empty().with_http_client(http).with_sleep_impl(super::session::sleep()))
            .endpoint(&endpoint)
            .map_err(|error| wrong(ENDPOINT_VARIABLE, &format!("{endpoint:?}: {error}")))?
            .connect_timeout(STEP)
            .read_timeout(STEP)
            .operation_attempt_timeout(WHOLE)
            .operation_timeout(WHOLE)
            .max_attempts(2)
            .build();
        Ok(Imds { client, endpoint })
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// An entry below `latest/`; none if there is no such entry.
    ///
    /// # Errors
    /// The service cannot be reached, or refuses.
    pub async fn get(&self, path: &str) -> Result<Option<String>, FleetError> {
        match self.client.get(format!("/latest/{path}")).await {
            Ok(text) => Ok(Some(String::from(text))),
            Err(ImdsError::ErrorResponse(answer)) if answer.response().status().as_u16() == NOT_FOUND => Ok(None),
            Err(error) => Err(self.explain(&error)),
        }
    }

    /// An entry of `latest/meta-data/`.
    ///
    /// # Errors
    /// As [`Imds::get`].
    pub async fn metadata(&self, path: &str) -> Result<Option<String>, FleetError> {
        self.get(&format!("meta-data/{path}")).await
    }

    fn explain(&self, error: &ImdsError) -> FleetError {
        let address = format!("{} (the instance metadata service)", self.endpoint);
        let reason = match error {
            ImdsError::ErrorResponse(answer) => {
                format!("it answers with status {}", answer.response().status().as_u16())
            }
            ImdsError::FailedToLoadToken(_) => {
                format!(
                    "no token: {}. Is this an EC2 instance, is the service enabled, and, in a container, is the \
                     instance's hop limit 2? {ENDPOINT_VARIABLE} names another address",
                    innermost(error)
                )
            }
            _ => innermost(error),
        };
        FleetError::Unreachable { address, reason }
    }
}

/// What lies at the bottom of an error, in its own words.
pub(super) fn innermost(error: &dyn Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
