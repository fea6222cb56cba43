//! The configuration of Admiral's lease ("Dynamo DB based DR sample"): the file that its pods have, read unchanged.

use serde::Deserialize;
use std::path::Path;
use std::time::Duration;

/// Name of the owner with which an operator makes every contender passive.
pub const SKIP_LEASE_POD: &str = "SKIP-LEASE-POD";
/// Largest file that is read, and longest duration of a lease.
const MAX_BYTES: u64 = 64 << 10;
const MAX_DURATION_S: u32 = 600;

/// `dynamoDB:` of the file, with the names and meanings of the paper.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Admiral {
    /// Key of the record.
    pub lease_name: String,
    /// Owner in the record.
    pub pod_identifier: String,
    /// Interval of reads and renewals.
    pub wait_time_in_seconds: u32,
    /// Intervals without a renewal after which another pod takes over.
    pub failure_threshold: u32,
    pub table_name: String,
    /// ARN of the role to assume; empty for the credentials of the environment or the instance.
    #[serde(default)]
    pub role: String,
    /// Empty as for `dynamodb:`.
    #[serde(default)]
    pub region: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "dynamoDB")]
    dynamo_db: Admiral,
}

impl Admiral {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn load(path: &Path) -> Result<Admiral, String> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let size = std::fs::metadata(path).map_err(|error| named(&error))?.len();
        if size > MAX_BYTES {
            return Err(named(&format!("{size} bytes are too many for this file")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
        Admiral::parse(&text).map_err(|error| named(&error))
    }

    /// # Errors
    /// As [`Admiral::load`].
    pub fn parse(text: &str) -> Result<Admiral, String> {
        let File { dynamo_db: of } = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        let texts =
            [("leaseName", &of.lease_name), ("podIdentifier", &of.pod_identifier), ("tableName", &of.table_name)];
        if let Some((name, _)) = texts.into_iter().find(|(_, text)| text.is_empty()) {
            return Err(format!("dynamoDB: {name} is empty"));
        }
        if of.pod_identifier == SKIP_LEASE_POD {
            return Err(format!("dynamoDB: podIdentifier is {SKIP_LEASE_POD}, which nobody may be called"));
        }
        if of.wait_time_in_seconds == 0 || of.failure_threshold < 2 {
            return Err(
                "dynamoDB: waitTimeInSeconds is at least 1 and failureThreshold at least 2: a renewal may be late"
                    .into(),
            );
        }
        let seconds = of.wait_time_in_seconds.checked_mul(of.failure_threshold);
        if seconds.is_none_or(|seconds| seconds > MAX_DURATION_S) {
            return Err(format!(
                "dynamoDB: waitTimeInSeconds times failureThreshold is more than {MAX_DURATION_S} s: that long nobody would be active"
            ));
        }
        Ok(of)
    }

    pub fn heartbeat(&self) -> Duration {
        Duration::from_secs(self.wait_time_in_seconds.into())
    }

    /// Time without a renewal after which another pod takes over.
    pub fn duration(&self) -> Duration {
        self.heartbeat().saturating_mul(self.failure_threshold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "dynamoDB:\n  leaseName: tick\n  podIdentifier: pod-1\n  waitTimeInSeconds: 2\n  failureThreshold: 3\n  \
                         tableName: admiral-lease\n  role: arn:aws:iam::123456789012:role/lease\n  region: us-west-2\n";

    #[test]
    fn the_papers_file_is_read() {
        let of = Admiral::parse(WHOLE).unwrap();
        assert_eq!((of.lease_name.as_str(), of.pod_identifier.as_str()), ("tick", "pod-1"));
        assert_eq!((of.table_name.as_str(), of.region.as_str()), ("admiral-lease", "us-west-2"));
        assert_eq!(of.role, "arn:aws:iam::123456789012:role/lease");
        assert_eq!((of.heartbeat(), of.duration()), (Duration::from_secs(2), Duration::from_secs(6)));
    }

    #[test]
    fn wrong_files_are_rejected_with_the_reason() {
        for (before, after, reason) in [
            ("leaseName: tick", "leaseNam: tick", "leaseNam"),
            ("  leaseName: tick\n", "", "leaseName"),
            ("leaseName: tick", "leaseName: ''", "leaseName is empty"),
            ("pod-1", SKIP_LEASE_POD, "which nobody may be called"),
            ("waitTimeInSeconds: 2", "waitTimeInSeconds: two", "line 4"),
            ("waitTimeInSeconds: 2", "waitTimeInSeconds: 0", "at least 1"),
            ("failureThreshold: 3", "failureThreshold: 1", "at least 2"),
            ("failureThreshold: 3", "failureThreshold: 4000000000", "more than 600 s"),
            ("dynamoDB:", "dynamodb:", "dynamodb"),
            ("dynamoDB:", "extra: 1\ndynamoDB:", "extra"),
        ] {
            let text = WHOLE.replace(before, after);
            let error = Admiral::parse(&text).expect_err(&text);
            assert!(error.contains(reason), "{after}: {error}");
        }
    }
}
