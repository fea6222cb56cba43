//! Makes the calls: one at a time, on the thread that asks, within their budgets.

use super::api::{self, Api, Purpose};
use super::session::{Endpoints, Service, Session};
use crate::fleet::FleetError;
use crate::fleet::back_off::Budget;
use aws_sdk_autoscaling::config::http::HttpResponse;
use aws_sdk_autoscaling::error::{ProvideErrorMetadata, SdkError};
use std::error::Error;
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};

const SECOND_NS: u64 = 1_000_000_000;

/// Calls at once, and time until there is another. One node of a day makes a few in an hour; fifty together stay under what
/// an account may call.
struct Budgets {
    look: Budget,
    capacity: Budget,
    instance: Budget,
    identity: Budget,
}

impl Budgets {
    const fn new() -> Budgets {
        Budgets {
            look: Budget::new(20, 3 * SECOND_NS),
            capacity: Budget::new(10, 5 * SECOND_NS),
            instance: Budget::new(30, 3 * SECOND_NS),
            identity: Budget::new(20, 3 * SECOND_NS),
        }
    }

    fn of(&mut self, purpose: Purpose) -> &mut Budget {
        match purpose {
            Purpose::Look => &mut self.look,
            Purpose::Capacity => &mut self.capacity,
            Purpose::Instance => &mut self.instance,
            Purpose::Identity => &mut self.identity,
        }
    }
}

/// The services, as one instance sees them.
pub struct Cloud {
    runtime: Runtime,
    pub session: Session,
    autoscaling: Option<aws_sdk_autoscaling::Client>,
    ec2: Option<aws_sdk_ec2::Client>,
    budgets: Budgets,
    began: Instant,
}

impl Cloud {
    /// Asks the metadata service for the region and no more.
    ///
    /// # Errors
    /// No runtime can be had, or there is no metadata service.
    pub fn open(endpoints: Endpoints) -> Result<Cloud, FleetError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| FleetError::Refused(format!("the system: {error}")))?;
        let session = runtime.block_on(Session::open_at(endpoints))?;
        Ok(Cloud { runtime, session, autoscaling: None, ec2: None, budgets: Budgets::new(), began: Instant::now() })
    }

    /// A request of the metadata service, which has no budget: it is the instance's own.
    ///
    /// # Errors
    /// As [`Imds::metadata`](super::imds::Imds::metadata).
    pub fn metadata(&self, path: &str) -> Result<Option<String>, FleetError> {
        self.runtime.block_on(self.session.imds.metadata(path))
    }

    /// As [`Cloud::metadata`], for what lies elsewhere.
    ///
    /// # Errors
    /// As [`Imds::get`](super::imds::Imds::get).
    pub fn get(&self, path: &str) -> Result<Option<String>, FleetError> {
        self.runtime.block_on(self.session.imds.get(path))
    }

    /// A call of the scaling service.
    ///
    /// # Errors
    /// What [`api::explain`] makes of the SDK's, or that the budget is used up.
    pub fn scaling<T, E, F>(
        &mut self,
        api: &'static Api,
        make: impl FnOnce(&aws_sdk_autoscaling::Client) -> F,
    ) -> Result<T, FleetError>
    where
        F: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
        E: ProvideErrorMetadata + Error + 'static,
    {
        self.spend(api)?;
        let session = &self.session;
        let client = self
            .autoscaling
            .get_or_insert_with(|| aws_sdk_autoscaling::Client::new(&session.config(Service::AutoScaling)));
        let call = make(client);
        self.finish(Service::AutoScaling, api, call)
    }

    /// A call of EC2.
    ///
    /// # Errors
    /// As [`Cloud::scaling`].
    pub fn ec2<T, E, F>(
        &mut self,
        api: &'static Api,
        make: impl FnOnce(&aws_sdk_ec2::Client) -> F,
    ) -> Result<T, FleetError>
    where
        F: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
        E: ProvideErrorMetadata + Error + 'static,
    {
        self.spend(api)?;
        let session = &self.session;
        let client = self.ec2.get_or_insert_with(|| aws_sdk_ec2::Client::new(&session.config(Service::Ec2)));
        let call = make(client);
        self.finish(Service::Ec2, api, call)
    }

    /// Waits for a call, and puts what went wrong with it into words.
    fn finish<T, E, F>(&self, service: Service, api: &'static Api, call: F) -> Result<T, FleetError>
    where
        F: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
        E: ProvideErrorMetadata + Error + 'static,
    {
        self.runtime.block_on(call).map_err(|error| api::explain(api, &self.session.address(service), &error))
    }

    fn spend(&mut self, api: &'static Api) -> Result<(), FleetError> {
        let now_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.budgets.of(api.purpose).take(now_ns).map_err(|_| FleetError::Busy {
            call: api.name,
            reason: "this instance has made as many calls as it may for now".to_string(),
        })
    }
}
