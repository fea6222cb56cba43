//! `--owner-lease`: where the leases of owners are kept, and their windows.

use super::lease::{LeaseTable, LeaseUrl, parameters};
use super::swift::SwiftPlace;
use super::units;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Default life of a lease, and renewals within it.
const EXPIRE: Duration = Duration::from_secs(15);
const RENEWALS: u32 = 5;
/// Longest life: an owner that is gone counts as there for so long.
const MAX_EXPIRE: Duration = Duration::from_secs(3600);
/// Swift's times are whole seconds: the owner relies on one less.
const SWIFT_SLACK: Duration = Duration::from_secs(1);

/// A store of owners' leases, with their windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerUrl {
    pub place: OwnerPlace,
    pub expire: Duration,
    pub renew: Duration,
    pub validity: Duration,
    /// Part of the life that the store may round off.
    pub slack: Duration,
}

/// Where the leases are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerPlace {
    Directory(PathBuf),
    /// The key is what the keys of all owners begin with.
    Table(Box<LeaseTable>),
    Swift(SwiftPlace),
}

impl OwnerUrl {
    /// Nanoseconds of the windows: expire, renew, validity, slack.
    pub fn windows_ns(&self) -> [u64; 4] {
        [self.expire, self.renew, self.validity, self.slack]
            .map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Parameters of a URL that are common to all stores; the rest is left.
struct Common {
    expire: Duration,
    renew: Option<Duration>,
    validity: Option<Duration>,
    rest: Vec<(String, String)>,
}

impl Common {
    fn read(text: &str, asked: &str) -> Result<Common, String> {
        let mut of = Common { expire: EXPIRE, renew: None, validity: None, rest: Vec::new() };
        for (name, value) in parameters(asked).map_err(|name| format!("{text:?}: {name} has no value"))? {
            match name {
                "expire" => of.expire = units::duration(&value)?,
                "renew" => of.renew = Some(units::duration(&value)?),
                "validity" => of.validity = Some(units::duration(&value)?),
                _ => of.rest.push((name.to_string(), value)),
            }
        }
        Ok(of)
    }
}

impl FromStr for OwnerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<OwnerUrl, String> {
        let (path, parameters) = text.split_once('?').unwrap_or((text, ""));
        let common = Common::read(text, parameters)?;
        let mut slack = Duration::ZERO;
        let wrong = |what: &str| format!("{text:?}: {what}");
        let place = if let Some(directory) = path.strip_prefix("file:") {
            if directory.is_empty() {
                return Err(wrong("there is no directory; write it like file:/var/lib/elastick/owners"));
            }
            if let Some((name, _)) = common.rest.first() {
                return Err(wrong(&format!("{name:?} is none of expire, renew, validity")));
            }
            OwnerPlace::Directory(directory.into())
        } else if path.starts_with("dynamodb:") {
            let rest: Vec<String> = common.rest.iter().map(|(name, value)| format!("{name}={value}")).collect();
            if rest.iter().any(|part| part.starts_with("duration=") || part.starts_with("heartbeat=")) {
                return Err(wrong("an owner's lease has expire= and renew= instead of duration= and heartbeat="));
            }
            match format!("{path}?{}", rest.join("&")).parse()? {
                LeaseUrl::Table(mut table) => {
                    (table.duration, table.heartbeat) = (common.expire, common.expire / RENEWALS);
                    OwnerPlace::Table(table)
                }
                _ => return Err(wrong("write it like dynamodb://TABLE/PREFIX?region=eu-west-1")),
            }
        } else if let Some(place) = path.strip_prefix("swift://") {
            slack = SWIFT_SLACK;
            if common.expire.subsec_nanos() != 0 {
                return Err(wrong("Swift's times are whole seconds: expire must be, too"));
            }
            OwnerPlace::Swift(SwiftPlace::read(place, &common.rest).map_err(|what| wrong(&what))?)
        } else {
            let what = if path.starts_with("admiral:") {
                "Admiral's table has one lease, not one per owner"
            } else {
                "no store"
            };
            return Err(wrong(&format!(
                "{what}: swift://HOST/CONTAINER?account=AUTH_x, dynamodb://TABLE/PREFIX or file:DIR"
            )));
        };
        if common.expire > MAX_EXPIRE {
            return Err(wrong("the longest expire is 1h: for so long an owner that is gone counts as there"));
        }
        let renew = common.renew.unwrap_or(common.expire / RENEWALS);
        if renew.is_zero() || renew > common.expire.saturating_sub(slack) / 2 {
            return Err(wrong(
                "renew must be at most half of expire (for Swift, of a second less), so that one renewal may be late",
            ));
        }
        let validity = common.validity.unwrap_or(renew);
        if validity > renew {
            return Err(wrong("validity must be at most renew, otherwise a late renewal stops all work"));
        }
        Ok(OwnerUrl { place, expire: common.expire, renew, validity, slack })
    }
}

#[cfg(test)]
mod tests {
    use super::super::swift::{AUTH_PATH, SwiftAuth};
    use super::*;

    fn read(text: &str) -> OwnerUrl {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn windows_have_defaults_that_fit_together() {
        let of = read("file:/tmp/owners");
        assert_eq!(of.place, OwnerPlace::Directory("/tmp/owners".into()));
        assert_eq!((of.expire, of.renew, of.validity, of.slack), (EXPIRE, EXPIRE / 5, EXPIRE / 5, Duration::ZERO));
        let of = read("file:x?expire=4s&renew=1s&validity=500ms");
        assert_eq!((of.expire, of.renew, of.validity), (EXPIRE * 4 / 15, EXPIRE / 15, EXPIRE / 30));
    }

    #[test]
    fn containers_of_swift() {
        let of = read("swift://127.0.0.1:8090/leases?account=AUTH_karbor&tls=off&expire=10s");
        let auth = SwiftAuth::None { account: "AUTH_karbor".into() };
        let (host, container) = ("127.0.0.1".to_string(), "leases".to_string());
        assert_eq!(of.place, OwnerPlace::Swift(SwiftPlace { host, port: 8090, is_secure: false, container, auth }));
        assert_eq!(of.slack, SWIFT_SLACK);
        let OwnerPlace::Swift(place) = read("swift://swift.example.com/c?user=test:tester&key-file=k").place else {
            panic!()
        };
        assert_eq!((place.port, place.is_secure), (443, true));
        assert_eq!(
            place.auth,
            SwiftAuth::Login { path: AUTH_PATH.into(), user: "test:tester".into(), key_file: "k".into() }
        );
    }

    #[test]
    fn tables_take_the_windows() {
        let OwnerPlace::Table(table) = read("dynamodb://leases/owners?region=eu-west-1&expire=20s").place else {
            panic!()
        };
        assert_eq!((table.key.as_str(), table.region.as_deref()), ("owners", Some("eu-west-1")));
        assert_eq!(table.duration, Duration::from_secs(20));
    }

    #[test]
    fn wrong_urls_are_rejected_with_the_reason() {
        for (text, reason) in [
            ("file:", "there is no directory"),
            ("file:x?a=1", "none of expire"),
            ("file:x?expire=2h", "the longest expire"),
            ("file:x?renew=10s", "at most half"),
            ("file:x?validity=4s", "at most renew"),
            ("admiral:x.yaml", "not one per owner"),
            ("redis://x", "no store"),
            ("dynamodb://leases/o?duration=3s", "instead of duration"),
            ("dynamodb://leases", "there is no key"),
            ("swift://host/c", "give account="),
            ("swift://host?account=a", "there is no container"),
            ("swift://host/c/d?account=a", "letters, digits"),
            ("swift://host/c?account=a&user=u&key-file=k", "give account="),
            ("swift://host/c?account=a&expire=1500ms", "whole seconds"),
            ("swift://host/c?account=a&expire=5s&renew=2500ms", "a second less"),
            ("swift://host:x/c?account=a", "not a port"),
            ("swift://ho st/c?account=a", "not a host"),
        ] {
            let error = text.parse::<OwnerUrl>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
