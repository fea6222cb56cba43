//! Region, credentials, endpoints and time limits shared by all calls.

use super::imds::{self, Imds};
use crate::fleet::FleetError;
use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::imds::credentials::ImdsCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_config::sts::AssumeRoleProvider;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_autoscaling::config::{
    AsyncSleep, SharedAsyncSleep, SharedCredentialsProvider, SharedHttpClient, Sleep, StalledStreamProtectionConfig,
};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use std::time::Duration;

const CONNECT: Duration = Duration::from_secs(2);
const ATTEMPT: Duration = Duration::from_secs(6);
/// Time limit of a call, including fetching credentials.
const CALL: Duration = Duration::from_secs(8);
/// Connections are polled only during a call, so one that was idle for longer may have been closed unnoticed.
const IDLE: Duration = Duration::from_secs(3);

/// Timer of the runtime that makes the calls.
#[derive(Debug)]
struct Pauses;

impl AsyncSleep for Pauses {
    fn sleep(&self, duration: Duration) -> Sleep {
        Sleep::new(tokio::time::sleep(duration))
    }
}

pub(super) fn sleep() -> SharedAsyncSleep {
    SharedAsyncSleep::new(Pauses)
}

/// Client without TLS, which skips loading the system's certificates.
fn plain() -> SharedHttpClient {
    Builder::new().pool_idle_timeout(IDLE).build_http()
}

fn secured() -> SharedHttpClient {
    Builder::new().pool_idle_timeout(IDLE).tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https()
}

/// A service, named as in `AWS_ENDPOINT_URL_<SERVICE>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    AutoScaling,
    Ec2,
    CloudWatch,
    DynamoDb,
    Sts,
}

impl Service {
    const ALL: [Service; 5] =
        [Service::AutoScaling, Service::Ec2, Service::CloudWatch, Service::DynamoDb, Service::Sts];

    const fn word(self) -> &'static str {
        match self {
            Service::AutoScaling => "AUTO_SCALING",
            Service::Ec2 => "EC2",
            Service::CloudWatch => "CLOUDWATCH",
            Service::DynamoDb => "DYNAMODB",
            Service::Sts => "STS",
        }
    }
}

/// Addresses of the services.
#[derive(Clone, Debug)]
pub struct Endpoints {
    pub metadata: String,
    /// Overrides of the region's endpoints.
    pub services: [Option<String>; 5],
}

impl Endpoints {
    /// Returns the default endpoints or those set by the environment, as in every AWS SDK.
    pub fn from_environment() -> Endpoints {
        let ignored = std::env::var("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS").is_ok_and(|text| text == "true");
        let named = |service: Service| {
            let own = std::env::var(format!("AWS_ENDPOINT_URL_{}", service.word()));
            let named = own.or_else(|_| std::env::var("AWS_ENDPOINT_URL")).ok();
            named.filter(|url| !ignored && !url.is_empty())
        };
        Endpoints { metadata: imds::endpoint(), services: Service::ALL.map(named) }
    }

    /// Replaces the address of a service.
    pub fn set(&mut self, service: Service, url: String) {
        let mut named = Service::ALL.iter().zip(&mut self.services);
        if let Some((_, own)) = named.find(|(other, _)| **other == service) {
            *own = Some(url);
        }
    }

    fn of(&self, service: Service) -> Option<&String> {
        let mut named = Service::ALL.iter().zip(&self.services);
        named.find(|(other, _)| **other == service).and_then(|(_, url)| url.as_ref())
    }
}

async fn region_of(imds: &Imds) -> Result<String, FleetError> {
    let region = imds.metadata("placement/region").await?;
    region.ok_or_else(|| FleetError::Protocol("the metadata service names no region".to_string()))
}

/// Credentials of the instance's role.
fn role_of(imds: &Imds) -> SharedCredentialsProvider {
    let config = ProviderConfig::empty().with_http_client(plain()).with_sleep_impl(sleep());
    SharedCredentialsProvider::new(
        ImdsCredentialsProvider::builder().imds_client(imds.client()).configure(&config).build(),
    )
}

/// Configuration shared by all clients, which are created on first use.
#[derive(Clone, Debug)]
pub struct Session {
    pub imds: Imds,
    pub region: String,
    endpoints: Endpoints,
    config: SdkConfig,
}

impl Session {
    /// Like [`Session::open_at`] with the endpoints of the environment.
    ///
    /// # Errors
    /// As [`Session::open_at`].
    pub async fn open() -> Result<Session, FleetError> {
        Session::open_at(Endpoints::from_environment()).await
    }

    /// Requests the region from the metadata service, and nothing else yet.
    ///
    /// # Errors
    /// The metadata service is unreachable or has no region.
    pub async fn open_at(endpoints: Endpoints) -> Result<Session, FleetError> {
        let imds = Imds::at(&endpoints.metadata, plain())?;
        let region = region_of(&imds).await?;
        // Only the instance's role: no keys from the environment, no profiles.
        let credentials = role_of(&imds);
        Ok(Session::with(imds, region, endpoints, credentials))
    }

    /// Session of a process that need not run on an instance: with the region that is given, and with the keys of the environment. What is
    /// not there comes from the metadata service.
    ///
    /// # Errors
    /// As [`Session::open_at`], without a region.
    pub async fn open_anywhere(region: Option<String>, endpoints: Endpoints) -> Result<Session, FleetError> {
        let imds = Imds::at(&endpoints.metadata, plain())?;
        let region = match region.or_else(|| std::env::var("AWS_REGION").ok()).filter(|region| !region.is_empty()) {
            Some(region) => region,
            None => region_of(&imds).await?,
        };
        let credentials = match std::env::var_os("AWS_ACCESS_KEY_ID").is_some_and(|key| !key.is_empty()) {
            true => SharedCredentialsProvider::new(EnvironmentVariableCredentialsProvider::new()),
            false => role_of(&imds),
        };
        Ok(Session::with(imds, region, endpoints, credentials))
    }

    /// The same session with the credentials of a role, which those of this one may assume.
    pub async fn assume(mut self, role: &str) -> Session {
        let mut config = self.config(Service::Sts).into_builder();
        // The provider does not work without a clock: the system's.
        config.set_time_source(Some(Default::default()));
        let provider = AssumeRoleProvider::builder(role).session_name("elastick").configure(&config.build());
        let provider = SharedCredentialsProvider::new(provider.build().await);
        self.config = self.config.into_builder().credentials_provider(provider).build();
        self
    }

    fn with(imds: Imds, region: String, endpoints: Endpoints, credentials: SharedCredentialsProvider) -> Session {
        let is_set = |name: &str| std::env::var(name).is_ok_and(|text| text == "true");
        let times = TimeoutConfig::builder()
            .connect_timeout(CONNECT)
            .operation_attempt_timeout(ATTEMPT)
            .operation_timeout(CALL)
            .build();
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new(region.clone()))
            .credentials_provider(credentials)
            .sleep_impl(sleep())
            .timeout_config(times)
            // No blind retries: a lost response must be read back first, since the call may have taken effect.
            .retry_config(RetryConfig::disabled())
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .use_fips(is_set("AWS_USE_FIPS_ENDPOINT"))
            .use_dual_stack(is_set("AWS_USE_DUALSTACK_ENDPOINT"))
            .build();
        Session { imds, region, endpoints, config }
    }

    /// Returns a service's address, for error messages.
    pub fn address(&self, service: Service) -> String {
        self.endpoints.of(service).cloned().unwrap_or_else(|| match service {
            Service::AutoScaling => format!("autoscaling.{}", self.region),
            Service::Ec2 => format!("ec2.{}", self.region),
            Service::CloudWatch => format!("monitoring.{}", self.region),
            Service::DynamoDb => format!("dynamodb.{}", self.region),
            Service::Sts => format!("sts.{}", self.region),
        })
    }

    /// Returns the configuration of a service's client; TLS is off for an `http://` endpoint.
    pub fn config(&self, service: Service) -> SdkConfig {
        let endpoint = self.endpoints.of(service).cloned();
        let is_plain = endpoint.as_ref().is_some_and(|url| url.starts_with("http://"));
        let mut config = self.config.clone().into_builder().http_client(if is_plain { plain() } else { secured() });
        config.set_endpoint_url(endpoint);
        config.build()
    }
}
