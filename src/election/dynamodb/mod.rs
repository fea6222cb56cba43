//! A lease as an item of a DynamoDB table, by the rules of the Java Lock Client (`amazon-dynamodb-lock-client`) or those of Admiral: other programs
//! under the same rules and this one respect one another's leases.
//!
//! The SDK makes one attempt per call: it would repeat a write whose answer was lost, find its own version in the table, and report that the
//! condition failed.

mod admiral;
mod error;
mod item;
mod layout;
mod lock_client;
mod request;

use super::store::{Store, StoreError};
use crate::config::{Admiral, LeaseTable};
use crate::fleet::aws::session::{Endpoints, Service, Session};
use crate::lease::{LeaseRecord, LeaseWrite, OwnerName, Written};
use admiral::AdmiralLayout;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::ReturnValue;
use error::{Call, GET, UPDATE, explain};
use layout::Layout;
use lock_client::LockClientLayout;
use std::io;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Where a table is.
#[derive(Clone, Debug, Default)]
pub struct TablePlace {
    pub table: String,
    /// Of the environment or the instance if `None`; so is the endpoint.
    pub region: Option<String>,
    pub endpoint: Option<String>,
    /// ARN of a role to assume.
    pub role: Option<String>,
}

/// A table as a store of one lease.
pub struct DynamoDb {
    runtime: Runtime,
    at: TablePlace,
    layout: Box<dyn Layout>,
    /// `None` until region and credentials have been found.
    client: Option<Client>,
}

impl DynamoDb {
    /// A record by the Lock Client's rules. Calls nothing yet. `data`: bytes for readers of the table.
    ///
    /// # Errors
    /// The system's.
    pub fn new(at: LeaseTable, me: OwnerName, data: Vec<u8>) -> io::Result<DynamoDb> {
        let (table, region, endpoint) = (at.table.clone(), at.region.clone(), at.endpoint.clone());
        let place = TablePlace { table, region, endpoint, role: None };
        DynamoDb::with(place, Box::new(LockClientLayout::new(at, me, data)))
    }

    /// A record by Admiral's rules. Calls nothing yet.
    ///
    /// # Errors
    /// The system's.
    pub fn of_admiral(of: Admiral, me: OwnerName) -> io::Result<DynamoDb> {
        let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let (region, role) = (given(&of.region), given(&of.role));
        let place = TablePlace { table: of.table_name.clone(), region, endpoint: None, role };
        DynamoDb::with(place, Box::new(AdmiralLayout::new(of, me)))
    }

    fn with(at: TablePlace, layout: Box<dyn Layout>) -> io::Result<DynamoDb> {
        Ok(DynamoDb { runtime: Builder::new_current_thread().enable_all().build()?, at, layout, client: None })
    }

    fn table(&self) -> String {
        match &self.at.region {
            Some(region) => format!("table {} in {region}", self.at.table),
            None => format!("table {}", self.at.table),
        }
    }

    /// Runs a future that makes a call, with its deadline.
    fn run<T>(
        &mut self,
        call: Call,
        within: Duration,
        make: impl AsyncFnOnce(&Client) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let (at, client) = (&self.at, &mut self.client);
        let answer = self.runtime.block_on(async {
            let all = async {
                let client = match client {
                    Some(client) => client,
                    None => client.insert(open(at).await?),
                };
                make(client).await
            };
            tokio::time::timeout(within, all).await
        });
        match answer {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::Failed(format!("{}: {}: no answer in time", self.table(), call.name))),
        }
    }
}

async fn open(at: &TablePlace) -> Result<Client, StoreError> {
    let mut endpoints = Endpoints::from_environment();
    if let Some(endpoint) = &at.endpoint {
        endpoints.set(Service::DynamoDb, endpoint.clone());
    }
    let session = Session::open_anywhere(at.region.clone(), endpoints).await;
    let mut session = session.map_err(|error| StoreError::Failed(format!("cannot find the region: {error}")))?;
    if let Some(role) = &at.role {
        session = session.assume(role).await;
    }
    Ok(Client::new(&session.config(Service::DynamoDb)))
}

impl Store for DynamoDb {
    fn read(&mut self, within: Duration) -> Result<Option<LeaseRecord>, StoreError> {
        let (table, names, key) = (self.table(), self.layout.key_names(), self.layout.key());
        let name = self.at.table.clone();
        let answer = self.run(GET, within, async |client| {
            let call = client.get_item().table_name(name).set_key(Some(key)).consistent_read(true);
            call.send().await.map_err(|error| explain(GET, &table, &names, &error))
        })?;
        let Some(item) = answer.item() else { return Ok(None) };
        let wrong = |reason| {
            let (table, key) = (self.table(), self.layout.key_text());
            StoreError::Unfit(format!("the item {key:?} of {table} is not a lease: {reason}"))
        };
        self.layout.record(item).map(Some).map_err(wrong)
    }

    fn write(&mut self, write: &LeaseWrite, within: Duration) -> Result<Written, StoreError> {
        let (table, names, key) = (self.table(), self.layout.key_names(), self.layout.key());
        let (name, request) = (self.at.table.clone(), self.layout.request(write));
        let answer = self.run(UPDATE, within, async |client| {
            let call = client
                .update_item()
                .table_name(name)
                .set_key(Some(key))
                .update_expression(request.update)
                .condition_expression(request.condition)
                .set_expression_attribute_names(Some(request.names))
                // An empty map is an error.
                .set_expression_attribute_values(Some(request.values).filter(|values| !values.is_empty()))
                .return_values(ReturnValue::AllNew);
            match call.send().await {
                Ok(answer) => Ok(Some(answer.attributes.unwrap_or_default())),
                Err(error) if is_refused(&error) => Ok(None),
                Err(error) => Err(explain(UPDATE, &table, &names, &error)),
            }
        })?;
        match answer {
            None => Ok(Written::Refused),
            Some(now) if self.layout.is_applied(write, &now) => Ok(Written::Applied),
            // Whether it was applied shows by reading the item.
            Some(_) => {
                Err(StoreError::Failed(format!("{}: {}: the answer lacks what was written", self.table(), UPDATE.name)))
            }
        }
    }
}

fn is_refused(error: &SdkError<UpdateItemError, HttpResponse>) -> bool {
    error.as_service_error().is_some_and(UpdateItemError::is_conditional_check_failed_exception)
}
