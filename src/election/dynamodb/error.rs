//! Errors of DynamoDB in an operator's terms.

use super::super::StoreError;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use std::error::Error;

/// Longest text of an error that is repeated.
const MAX_REASON_CHARACTERS: usize = 300;

const CREDENTIALS: &[&str] = &[
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "SignatureDoesNotMatch",
    "InvalidSignatureException",
    "IncompleteSignature",
    "IncompleteSignatureException",
];

/// A call, and what it needs.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub name: &'static str,
    pub permission: &'static str,
}

pub const GET: Call = Call { name: "GetItem", permission: "dynamodb:GetItem" };
pub const UPDATE: Call = Call { name: "UpdateItem", permission: "dynamodb:UpdateItem" };

/// Translates an error. `table` and `key`: words for the table and the names of the key's attributes.
pub fn explain<E>(call: Call, table: &str, key: &str, error: &SdkError<E, HttpResponse>) -> StoreError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let Call { name, permission } = call;
    match error {
        SdkError::ServiceError(context) => {
            let status = context.raw().status().as_u16();
            let code = context.err().code().unwrap_or_default();
            let message = short(context.err().message().unwrap_or("no reason is given"));
            match code {
                "ResourceNotFoundException" => StoreError::Unfit(format!("there is no {table}")),
                "ValidationException" => {
                    StoreError::Unfit(format!("{table} is not one for leases with the key {key}: {name}: {message}"))
                }
                "AccessDeniedException" | "AccessDenied" => {
                    StoreError::Failed(format!("{table}: the credentials do not allow {permission}: {message}"))
                }
                code if CREDENTIALS.contains(&code) => {
                    StoreError::Failed(format!("{table}: the credentials were rejected: {code}: {message}"))
                }
                "" => StoreError::Failed(format!("{table}: {name}: status {status}")),
                code => StoreError::Failed(format!("{table}: {name}: {code}: {message}")),
            }
        }
        SdkError::TimeoutError(_) => StoreError::Failed(format!("{table}: {name}: no answer in time")),
        SdkError::ResponseError(context) => {
            let status = context.raw().status().as_u16();
            StoreError::Failed(format!("{table}: {name}: an unreadable answer with status {status}"))
        }
        other if is_of_credentials(other) => {
            StoreError::Failed(format!("{table}: no credentials: {}", short(&innermost(other))))
        }
        other => StoreError::Failed(format!("{table}: {name}: {}", short(&innermost(other)))),
    }
}

/// Returns whether credentials could not be fetched, so that nothing was sent.
fn is_of_credentials(error: &dyn Error) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if text.contains("credential") || text.contains("identity") {
            return true;
        }
        next = error.source();
    }
    false
}

/// The cause that names a reason, without addresses and numbers of attempts around it.
fn innermost(error: &dyn Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

fn short(text: &str) -> String {
    text.chars().take(MAX_REASON_CHARACTERS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
