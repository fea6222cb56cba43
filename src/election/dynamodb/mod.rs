//! A lease as an item of a DynamoDB table, by the rules of the Java Lock Client (`amazon-dynamodb-lock-client`): its clients and this one respect
//! one another's leases.
//!
//! The SDK makes one attempt per call: it would repeat a write whose answer was lost, find its own version in the table, and report that the
//! condition failed.

mod error;
mod item;
mod request;

use super::store::{Store, StoreError};
use crate::config::LeaseTable;
use crate::fleet::aws::session::{Endpoints, Service, Session};
use crate::lease::{LeaseRecord, LeaseWrite, OwnerName, Written};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue};
use error::{Call, GET, UPDATE, explain};
use item::Item;
use request::{Request, Writer, is_applied};
use std::io;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// A table as a store of one lease.
pub struct DynamoDb {
    runtime: Runtime,
    at: LeaseTable,
    writer: Writer,
    /// `None` until region and credentials have been found.
    client: Option<Client>,
}

impl DynamoDb {
    /// Calls nothing yet. `data`: bytes for readers of the table.
    ///
    /// # Errors
    /// The system's.
    pub fn new(at: LeaseTable, me: OwnerName, data: Vec<u8>) -> io::Result<DynamoDb> {
        let writer = Writer {
            me,
            lease_ns: u64::try_from(at.duration.as_nanos()).unwrap_or(u64::MAX),
            data,
            key_name: at.key_name.clone(),
            sort_name: at.sort.as_ref().map(|(name, _)| name.clone()),
        };
        Ok(DynamoDb { runtime: Builder::new_current_thread().enable_all().build()?, at, writer, client: None })
    }

    fn table(&self) -> String {
        match &self.at.region {
            Some(region) => format!("table {} in {region}", self.at.table),
            None => format!("table {}", self.at.table),
        }
    }

    /// Names of the key's attributes.
    fn key_names(&self) -> String {
        match &self.at.sort {
            Some((sort, _)) => format!("{} and {sort}, both strings", self.at.key_name),
            None => format!("{}, a string, alone", self.at.key_name),
        }
    }

    fn key(&self) -> Item {
        let text = |name: &String, value: &String| (name.clone(), AttributeValue::S(value.clone()));
        let sort = self.at.sort.as_ref().map(|(name, value)| text(name, value));
        [text(&self.at.key_name, &self.at.key)].into_iter().chain(sort).collect()
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

async fn open(at: &LeaseTable) -> Result<Client, StoreError> {
    let mut endpoints = Endpoints::from_environment();
    if let Some(endpoint) = &at.endpoint {
        endpoints.set(Service::DynamoDb, endpoint.clone());
    }
    let session = Session::open_anywhere(at.region.clone(), endpoints).await;
    let session = session.map_err(|error| StoreError::Failed(format!("cannot find the region: {error}")))?;
    Ok(Client::new(&session.config(Service::DynamoDb)))
}

impl Store for DynamoDb {
    fn read(&mut self, within: Duration) -> Result<Option<LeaseRecord>, StoreError> {
        let (table, names, key) = (self.table(), self.key_names(), self.key());
        let name = self.at.table.clone();
        let answer = self.run(GET, within, async |client| {
            let call = client.get_item().table_name(name).set_key(Some(key)).consistent_read(true);
            call.send().await.map_err(|error| explain(GET, &table, &names, &error))
        })?;
        let Some(item) = answer.item() else { return Ok(None) };
        let wrong = |reason| {
            let (table, key) = (self.table(), &self.at.key);
            StoreError::Unfit(format!("the item {key:?} of {table} is not a lease: {reason}"))
        };
        item::record(item).map(Some).map_err(wrong)
    }

    fn write(&mut self, write: &LeaseWrite, within: Duration) -> Result<Written, StoreError> {
        let (table, names, key) = (self.table(), self.key_names(), self.key());
        let (name, request) = (self.at.table.clone(), Request::of(write, &self.writer));
        self.run(UPDATE, within, async |client| {
            let call = client
                .update_item()
                .table_name(name)
                .set_key(Some(key))
                .update_expression(request.update)
                .condition_expression(request.condition)
                .set_expression_attribute_names(Some(request.names))
                .set_expression_attribute_values(Some(request.values))
                .return_values(ReturnValue::UpdatedNew);
            match call.send().await {
                Ok(answer) if answer.attributes().is_some_and(|updated| is_applied(write, updated)) => {
                    Ok(Written::Applied)
                }
                // Whether it was applied shows by reading the item.
                Ok(_) => {
                    Err(StoreError::Failed(format!("{table}: {}: the answer lacks what was written", UPDATE.name)))
                }
                Err(error) if is_refused(&error) => Ok(Written::Refused),
                Err(error) => Err(explain(UPDATE, &table, &names, &error)),
            }
        })
    }
}

fn is_refused(error: &SdkError<UpdateItemError, HttpResponse>) -> bool {
    error.as_service_error().is_some_and(UpdateItemError::is_conditional_check_failed_exception)
}
