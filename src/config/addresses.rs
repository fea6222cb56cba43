//! Several addresses of one service, in kdb+'s notation with commas in between.

use super::address::Address;
use std::fmt;
use std::str::FromStr;

/// Addresses that one list may have.
pub const MAX_ADDRESSES: usize = 16;

/// Addresses of one service, in the order in which they are tried: at least one, at most [`MAX_ADDRESSES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses(Vec<Address>);

impl Addresses {
    pub fn iter(&self) -> std::slice::Iter<'_, Address> {
        self.0.iter()
    }

    /// Whether any of them uses TLS.
    pub fn has_tls(&self) -> bool {
        self.iter().any(|address| address.tls)
    }

    /// Returns the addresses of which `is_kept` is true; `None` if there are none.
    pub fn retain(mut self, is_kept: impl FnMut(&Address) -> bool) -> Option<Addresses> {
        self.0.retain(is_kept);
        (!self.0.is_empty()).then_some(self)
    }

    /// Returns the addresses with `change` applied to each.
    ///
    /// # Errors
    /// The first error of `change`.
    pub fn map<E>(self, change: impl FnMut(Address) -> Result<Address, E>) -> Result<Addresses, E> {
        self.0.into_iter().map(change).collect::<Result<_, E>>().map(Addresses)
    }
}

impl From<Address> for Addresses {
    fn from(address: Address) -> Addresses {
        Addresses(vec![address])
    }
}

impl FromStr for Addresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Addresses, String> {
        let count = text.split(',').count();
        if count == 1 {
            return text.parse().map(|address: Address| address.into());
        }
        if count > MAX_ADDRESSES {
            return Err(format!("{count} addresses; a list may have {MAX_ADDRESSES}"));
        }
        let hint = "a comma separates addresses: put a password with a comma into --login-file";
        let parsed = text.split(',').zip(1usize..).map(|(item, number)| match item.trim() {
            "" => Err(format!("address {number} of {count} is empty ({hint})")),
            item => item.parse().map_err(|error| format!("address {number} of {count}: {error} ({hint})")),
        });
        let addresses = parsed.collect::<Result<Vec<Address>, String>>()?;
        let mut places: Vec<String> = addresses.iter().map(Address::to_string).collect();
        places.sort_unstable();
        match places.array_windows().find(|[one, other]| one == other) {
            Some([twice, _]) => Err(format!("{twice} is in the list twice")),
            None => Ok(Addresses(addresses)),
        }
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, address) in self.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{address}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, String> {
        text.parse::<Addresses>().map(|addresses| addresses.to_string())
    }

    #[test]
    fn one_address_is_a_list_and_each_of_several_has_its_own_login_and_tls() {
        assert_eq!(shown(":5010").as_deref(), Ok("localhost:5010"));
        let list: Addresses = "tp1:5010:ann:a, tcps://tp2:5011:bob:b:c".parse().unwrap();
        assert_eq!(list.to_string(), "tp1:5010,tcps://tp2:5011");
        let logins: Vec<_> = list.iter().map(|address| (address.user.as_str(), address.password.as_str())).collect();
        assert_eq!(logins, [("ann", "a"), ("bob", "b:c")]);
        assert!(list.has_tls() && !format!("{list:?}").contains("b:c"));
    }

    #[test]
    fn a_bad_list_is_rejected_with_the_item_that_is_wrong() {
        let rejected = |text: &str, words: &str| {
            let error = shown(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        };
        rejected("tp1:5010,", "address 2 of 2 is empty");
        rejected(",tp1:5010", "address 1 of 2 is empty");
        rejected("tp1:5010,tp2", "address 2 of 2: \"tp2\" is not an address");
        rejected("tp1:5010,tp2:5010,tp1:5010", "tp1:5010 is in the list twice");
        rejected("tp1:5010:ann:a,b", "--login-file");
        let many = |count: usize| (0..count).map(|at| format!("tp{at}:5010")).collect::<Vec<_>>().join(",");
        assert!(shown(&many(MAX_ADDRESSES)).is_ok());
        rejected(&many(MAX_ADDRESSES + 1), "17 addresses; a list may have 16");
    }
}
