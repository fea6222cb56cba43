//! Client of the instance metadata service, version 2 only (each request carries a token).

use crate::fleet::FleetError;
use aws_config::imds::client::Client;
use aws_config::imds::client::error::ImdsError;
use aws_config::provider_config::ProviderConfig;
use aws_sdk_autoscaling::config::SharedHttpClient;
use std::error::Error;
use std::fmt::Display;
use std::time::Duration;

/// Overrides the address of the service, as in every AWS SDK.
const ENDPOINT_VARIABLE: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
const MODE_VARIABLE: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE";

const IPV4: &str = "http://169.254.169.254";
const IPV6: &str = "http://[fd00:ec2::254]";

/// Timeouts of an attempt and of a whole request. The service is on the same host: a slower response never comes.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

const NOT_FOUND: u16 = 404;

/// Returns the service's address; the environment may override it.
pub fn endpoint() -> String {
    let is_six = std::env::var(MODE_VARIABLE).is_ok_and(|mode| mode.eq_ignore_ascii_case("ipv6"));
    std::env::var(ENDPOINT_VARIABLE).unwrap_or_else(|_| if is_six { IPV6 } else { IPV4 }.to_string())
}

/// A client of the metadata service.
#[derive(Clone, Debug)]
pub struct Imds {
    client: Client,
    endpoint: String,
}

impl Imds {
    /// A client for this address; nothing is requested yet.
    ///
    /// # Errors
    /// It is not a valid address.
    pub fn at(endpoint: &str, http: SharedHttpClient) -> Result<Imds, FleetError> {
        let wrong = |reason: &dyn Display| FleetError::Protocol(format!("{ENDPOINT_VARIABLE}: {endpoint:?}: {reason}"));
        if !endpoint.starts_with("http://") {
            return Err(wrong(&"an address must begin with http://"));
        }
        // Profiles are not read: instances of one image must not differ by a file in a home directory.
        let client = Client::builder()
            .configure(&ProviderConfig::empty().with_http_client(http).with_sleep_impl(super::session::sleep()))
            .endpoint(endpoint)
            .map_err(|error| wrong(&error))?
            .connect_timeout(ATTEMPT_TIMEOUT)
            .read_timeout(ATTEMPT_TIMEOUT)
            .operation_attempt_timeout(REQUEST_TIMEOUT)
            .operation_timeout(REQUEST_TIMEOUT)
            .max_attempts(2)
            .build();
        Ok(Imds { client, endpoint: endpoint.to_string() })
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns an entry below `latest/`; `None` if there is no such entry.
    ///
    /// # Errors
    /// The service is unreachable or rejects the request.
    pub async fn get(&self, path: &str) -> Result<Option<String>, FleetError> {
        match self.client.get(format!("/latest/{path}")).await {
            Ok(text) => Ok(Some(String::from(text))),
            Err(ImdsError::ErrorResponse(answer)) if answer.response().status().as_u16() == NOT_FOUND => Ok(None),
            Err(error) => Err(self.explain(&error)),
        }
    }

    /// Returns an entry of `latest/meta-data/`.
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
                format!("it responded with status {}", answer.response().status().as_u16())
            }
            ImdsError::FailedToLoadToken(_) => {
                format!(
                    "no token: {}. Is this an EC2 instance, is the service enabled, and, in a container, is the \
                     instance's hop limit 2? {ENDPOINT_VARIABLE} sets another address",
                    innermost(error)
                )
            }
            _ => innermost(error),
        };
        FleetError::Unreachable { address, reason }
    }
}

/// Returns the message of an error's root cause.
pub(super) fn innermost(error: &dyn Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
