//! Makes the calls to AWS: one at a time, on the calling thread, within a budget for each purpose.

use super::api::{self, Api, Purpose};
use super::ec2::{self, Call, Ec2, Record};
use super::session::{Endpoints, Service, Session};
use crate::fleet::FleetError;
use crate::fleet::back_off::Budget;
use aws_sdk_autoscaling::config::http::HttpResponse;
use aws_sdk_autoscaling::error::{ProvideErrorMetadata, SdkError};
use std::error::Error;
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};

const SECOND_NS: u64 = 1_000_000_000;

/// Burst and rate for each purpose. A node makes a few calls an hour; fifty nodes together stay below an account's limits.
struct Budgets {
    describe: Budget,
    capacity: Budget,
    instance: Budget,
    identity: Budget,
}

impl Budgets {
    const fn new() -> Budgets {
        Budgets {
            describe: Budget::new(20, 3 * SECOND_NS),
            capacity: Budget::new(10, 5 * SECOND_NS),
            instance: Budget::new(30, 3 * SECOND_NS),
            identity: Budget::new(20, 3 * SECOND_NS),
        }
    }

    fn of(&mut self, purpose: Purpose) -> &mut Budget {
        match purpose {
            Purpose::Describe => &mut self.describe,
            Purpose::Capacity => &mut self.capacity,
            Purpose::Instance => &mut self.instance,
            Purpose::Identity => &mut self.identity,
        }
    }
}

/// The AWS services as used by one instance.
pub struct Cloud {
    runtime: Runtime,
    pub session: Session,
    autoscaling: Option<aws_sdk_autoscaling::Client>,
    ec2: Option<Ec2>,
    budgets: Budgets,
    began: Instant,
}

impl Cloud {
    /// Requests only the region, from the metadata service.
    ///
    /// # Errors
    /// The runtime cannot start, or there is no metadata service.
    pub fn open(endpoints: Endpoints) -> Result<Cloud, FleetError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| FleetError::Refused(format!("the system: {error}")))?;
        let session = runtime.block_on(Session::open_at(endpoints))?;
        Ok(Cloud { runtime, session, autoscaling: None, ec2: None, budgets: Budgets::new(), began: Instant::now() })
    }

    /// Returns an entry of `latest/meta-data/`. There is no budget: the service belongs to this instance alone.
    ///
    /// # Errors
    /// As [`Imds::metadata`](super::imds::Imds::metadata).
    pub fn metadata(&self, path: &str) -> Result<Option<String>, FleetError> {
        self.runtime.block_on(self.session.imds.metadata(path))
    }

    /// Like [`Cloud::metadata`] for entries elsewhere below `latest/`.
    ///
    /// # Errors
    /// As [`Imds::get`](super::imds::Imds::get).
    pub fn get(&self, path: &str) -> Result<Option<String>, FleetError> {
        self.runtime.block_on(self.session.imds.get(path))
    }

    /// Calls the scaling service.
    ///
    /// # Errors
    /// The SDK's error, translated by [`api::explain`], or the budget is used up.
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

    /// Calls EC2; returns the texts that are `wanted` of each element at a path of the response.
    ///
    /// # Errors
    /// As [`Cloud::scaling`], or the response cannot be read.
    pub fn ec2(
        &mut self,
        api: &'static Api,
        parameters: Call,
        path: &[&str],
        wanted: &[&str],
    ) -> Result<Vec<Record>, FleetError> {
        self.spend(api)?;
        let client = match self.ec2.take() {
            Some(client) => client,
            None => self.runtime.block_on(Ec2::new(&self.session))?,
        };
        let body = self.finish(Service::Ec2, api, client.call(api.name, parameters));
        self.ec2 = Some(client);
        let root = format!("{}Response", api.name);
        let path = [&[root.as_str()], path].concat();
        ec2::records(&body?, &path, wanted).map_err(|error| FleetError::Protocol(format!("{}: {error}", api.name)))
    }

    /// Waits for a call and translates its error.
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
            reason: "this instance has reached its rate of calls".to_string(),
        })
    }
}
