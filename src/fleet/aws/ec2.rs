//! The three calls of EC2 that are needed, in its query protocol. Its SDK holds hundreds of others, and takes longer to build than all of elastick.

use super::session::{Service, Session, sleep};
use crate::fleet::FleetError;
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_runtime::auth::{SigV4OperationSigningConfig, SigningOptions};
use aws_sdk_autoscaling::config::endpoint::{DefaultResolver, Params, ResolveEndpoint};
use aws_sdk_autoscaling::config::http::{HttpRequest, HttpResponse};
use aws_sdk_autoscaling::config::{
    IdentityCache, Layer, Region, RuntimeComponentsBuilder, StalledStreamProtectionConfig,
};
use aws_sdk_autoscaling::error::{BoxError, ErrorMetadata, SdkError};
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime_api::client::auth::AuthSchemeOptionResolverParams;
use aws_smithy_runtime_api::client::auth::static_resolver::StaticAuthSchemeOptionResolver;
use aws_smithy_runtime_api::client::identity::SharedIdentityResolver;
use aws_smithy_runtime_api::client::orchestrator::OrchestratorError;
use aws_smithy_runtime_api::client::runtime_plugin::StaticRuntimePlugin;
use aws_smithy_xml::decode::{Document, ScopedDecoder, XmlDecodeError, try_data};
use std::collections::BTreeMap;

/// Version of EC2's interface.
const VERSION: &str = "2016-11-15";

/// An action and its parameters.
pub type Call = Vec<(String, String)>;

/// A client, which keeps its credentials until they expire.
pub struct Ec2 {
    operation: Operation<Call, String, ErrorMetadata>,
}

/// Parameters of a list, numbered from 1: `InstanceId.1`, `InstanceId.2`.
pub fn numbered<'a>(name: &str, values: impl IntoIterator<Item = &'a str>) -> Call {
    (1..).zip(values).map(|(number, value)| (format!("{name}.{number}"), value.to_string())).collect()
}

impl Ec2 {
    /// A client with the session's region, credentials, endpoint and time limits.
    ///
    /// # Errors
    /// The region has no endpoint.
    pub async fn new(session: &Session) -> Result<Ec2, FleetError> {
        let config = session.config(Service::Ec2);
        let url = match config.endpoint_url() {
            Some(url) => url.to_string(),
            None => regional(&config).await.map_err(|error| FleetError::Refused(error.to_string()))?,
        };
        let mut signing = Layer::new("signing");
        signing.store_put(AuthSchemeOptionResolverParams::new(()));
        signing.store_put(SigV4OperationSigningConfig {
            region: config.region().cloned().map(Region::into),
            region_set: None,
            name: Some("ec2".into()),
            signing_options: SigningOptions::default(),
        });
        let mut components = RuntimeComponentsBuilder::new("signing")
            .with_auth_scheme(SigV4AuthScheme::new())
            .with_auth_scheme_option_resolver(Some(StaticAuthSchemeOptionResolver::new(vec![SCHEME_ID])))
            .with_identity_cache(Some(IdentityCache::lazy().build()));
        if let Some(provider) = config.credentials_provider() {
            components.set_identity_resolver(SCHEME_ID, SharedIdentityResolver::new(provider));
        }
        let mut operation = Operation::builder()
            .service_name("EC2")
            .operation_name("query")
            .endpoint_url(&url)
            .no_retry()
            .with_connection_poisoning()
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .sleep_impl(sleep())
            .timeout_config(
                config.timeout_config().cloned().unwrap_or_else(aws_config::timeout::TimeoutConfig::disabled),
            )
            .runtime_plugin(
                StaticRuntimePlugin::new().with_config(signing.freeze()).with_runtime_components(components),
            );
        if let Some(client) = config.http_client() {
            operation = operation.http_client(client);
        }
        Ok(Ec2 { operation: operation.serializer(request).deserializer(text).build() })
    }

    /// Makes a call; returns the text of the response.
    ///
    /// # Errors
    /// The SDK's, with the code and the message of EC2's own.
    pub async fn call(&self, action: &str, parameters: Call) -> Result<String, SdkError<ErrorMetadata, HttpResponse>> {
        let named =
            [("Action", action), ("Version", VERSION)].map(|(name, value)| (name.to_string(), value.to_string()));
        self.operation.invoke(named.into_iter().chain(parameters).collect()).await
    }
}

/// URL of EC2 in the region. The SDK gives that of Auto Scaling, `https://autoscaling.eu-west-1.amazonaws.com`, which differs only in the name.
async fn regional(config: &aws_config::SdkConfig) -> Result<String, BoxError> {
    let params = Params::builder()
        .set_region(config.region().map(ToString::to_string))
        .set_use_fips(config.use_fips())
        .set_use_dual_stack(config.use_dual_stack())
        .build()?;
    let endpoint = DefaultResolver::new().resolve_endpoint(&params).await?;
    Ok(endpoint.url().replacen("//autoscaling", "//ec2", 1))
}

fn request(call: Call) -> Result<HttpRequest, BoxError> {
    let pairs: Vec<String> = call.iter().map(|(name, value)| format!("{}={}", escaped(name), escaped(value))).collect();
    let mut request = HttpRequest::new(pairs.join("&").into());
    request.set_method("POST")?;
    request.set_uri("/")?;
    request.headers_mut().insert("content-type", "application/x-www-form-urlencoded");
    Ok(request)
}

/// Text in a form, where other bytes than these are escaped.
fn escaped(text: &str) -> String {
    let byte = |b: u8| match b {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(b).to_string(),
        _ => format!("%{b:02X}"),
    };
    text.bytes().map(byte).collect()
}

fn text(response: &HttpResponse) -> Result<String, OrchestratorError<ErrorMetadata>> {
    let body = String::from_utf8_lossy(response.body().bytes().unwrap_or_default());
    match response.status().is_success() {
        true => Ok(body.into_owned()),
        // Its status says enough where the text does not.
        false => Err(OrchestratorError::operation(fault(&body).unwrap_or_default())),
    }
}

/// Code and message of an error.
fn fault(body: &str) -> Result<ErrorMetadata, XmlDecodeError> {
    let path = ["Response", "Errors", "Error"];
    let mut error = records(body, &path, &["Code", "Message"])?.into_iter().next().unwrap_or_default();
    let mut found = ErrorMetadata::builder();
    if let Some(code) = error.remove("Code") {
        found = found.code(code);
    }
    if let Some(message) = error.remove("Message") {
        found = found.message(message);
    }
    Ok(found.build())
}

/// Texts of the elements within an element, by their names.
pub type Record = BTreeMap<String, String>;

/// Returns those texts that are `wanted` of each element at a path from the root on, as `["DescribeTagsResponse", "tagSet", "item"]`. A text may
/// be one level deeper.
///
/// # Errors
/// The text is no XML, is cut off, or has another root.
pub fn records(body: &str, path: &[&str], wanted: &[&str]) -> Result<Vec<Record>, XmlDecodeError> {
    let (mut document, mut found) = (Document::new(body), Vec::new());
    let mut root = document.root_element()?;
    let name = root.start_el().local().to_string();
    match path.split_first() {
        Some((first, rest)) if *first == name => below(&mut root, rest, wanted, &mut found)?,
        _ => return Err(XmlDecodeError::custom(format!("the root is {name}"))),
    }
    // The decoder takes the end of the text for that of all elements.
    match body.trim_end().ends_with(&format!("</{name}>")) {
        true => Ok(found),
        false => Err(XmlDecodeError::custom("the text is cut off")),
    }
}

fn below(
    within: &mut ScopedDecoder,
    path: &[&str],
    wanted: &[&str],
    found: &mut Vec<Record>,
) -> Result<(), XmlDecodeError> {
    let Some((first, rest)) = path.split_first() else {
        let mut record = Record::new();
        texts(within, wanted, &mut |name, text| drop(record.insert(name, text)))?;
        found.push(record);
        return Ok(());
    };
    while let Some(mut element) = within.next_tag() {
        if element.start_el().local() == *first {
            below(&mut element, rest, wanted, found)?;
        }
    }
    Ok(())
}

fn texts(
    within: &mut ScopedDecoder,
    wanted: &[&str],
    found: &mut dyn FnMut(String, String),
) -> Result<(), XmlDecodeError> {
    while let Some(mut element) = within.next_tag() {
        let mut keep = |element: &mut ScopedDecoder| {
            let name = element.start_el().local().to_string();
            let is_wanted = wanted.contains(&name.as_str());
            if is_wanted {
                found(name, try_data(element)?.into_owned());
            }
            Ok::<bool, XmlDecodeError>(is_wanted)
        };
        if !keep(&mut element)? {
            while let Some(mut inner) = element.next_tag() {
                keep(&mut inner)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "<R><requestId>r</requestId><set><item><id>i-1</id><placement><zone>a</zone></placement><other><more>\
                        <id>no</id></more></other></item><item><id>i&amp;2</id><empty/></item></set><set/><id>no</id></R>";

    fn read(body: &str) -> Result<Vec<Vec<(String, String)>>, XmlDecodeError> {
        let records = records(body, &["R", "set", "item"], &["id", "zone", "empty"])?;
        Ok(records.into_iter().map(|record| record.into_iter().collect()).collect())
    }

    #[test]
    fn records_have_the_texts_of_their_elements() {
        let pair = |name: &str, text: &str| (name.to_string(), text.to_string());
        let expected = [vec![pair("id", "i-1"), pair("zone", "a")], vec![pair("empty", ""), pair("id", "i&2")]];
        assert_eq!(read(BODY).expect("XML"), expected);
        assert!(read("<R><set/></R>").expect("XML").is_empty());
    }

    #[test]
    fn a_response_that_is_damaged_or_another_one_is_an_error() {
        for end in 0..BODY.len() {
            assert!(read(&BODY[..end]).is_err(), "{}", &BODY[..end]);
        }
        for body in ["no XML", "<html><body>Sign in</body></html>", "<R><set><item><id>&bad;</id></item></set></R>"] {
            assert!(read(body).is_err(), "{body}");
        }
    }

    #[test]
    fn what_a_form_cannot_hold_is_escaped() {
        assert_eq!(
            escaped("aws:autoscaling:groupName=a b&c/é-._~"),
            "aws%3Aautoscaling%3AgroupName%3Da%20b%26c%2F%C3%A9-._~"
        );
    }

    #[test]
    fn the_address_is_that_of_the_region_and_partition() {
        let of = |region: &'static str, fips: bool, dual: bool| {
            let config = aws_config::SdkConfig::builder()
                .region(Region::new(region))
                .use_fips(fips)
                .use_dual_stack(dual)
                .build();
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(regional(&config)).expect("an address")
        };
        assert_eq!(of("eu-west-1", false, false), "https://ec2.eu-west-1.amazonaws.com");
        assert_eq!(of("cn-north-1", false, false), "https://ec2.cn-north-1.amazonaws.com.cn");
        assert_eq!(of("us-east-1", true, false), "https://ec2-fips.us-east-1.amazonaws.com");
        assert_eq!(of("us-east-1", false, true), "https://ec2.us-east-1.api.aws");
    }
}
