//! Value of the option for queries in the audit log.

/// How the audit log shows a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditQueries {
    /// Its text, cut to a limit.
    #[default]
    Text,
    /// Its SHA-256: which query it was can be shown, not read.
    Hash,
    None,
}

/// Parses the name of a form.
///
/// # Errors
/// The text is not a form.
pub fn queries(text: &str) -> Result<AuditQueries, String> {
    match text {
        "text" => Ok(AuditQueries::Text),
        "hash" => Ok(AuditQueries::Hash),
        "none" => Ok(AuditQueries::None),
        _ => Err(format!("{text:?} is not one of text, hash and none")),
    }
}

/// Parses the beginning of a time of the audit log, such as `2026-11-24T09:30`.
///
/// # Errors
/// The text is not a date, or no time follows it.
pub fn time(text: &str) -> Result<String, String> {
    const FORM: &[u8] = b"0000-00-00T00:00:00.000000000Z";
    let is_like = |(byte, form): (&u8, &u8)| if *form == b'0' { byte.is_ascii_digit() } else { byte == form };
    let is_time = (10..=FORM.len()).contains(&text.len()) && text.as_bytes().iter().zip(FORM).all(is_like);
    if !is_time {
        return Err(format!("{text:?} is not a time; write it like 2026-11-24 or 2026-11-24T09:30:00"));
    }
    Ok(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_or_more() {
        for text in ["2026-11-24", "2026-11-24T09:30", "2026-11-24T09:30:00.123456789Z"] {
            assert_eq!(time(text).as_deref(), Ok(text));
        }
        for text in ["", "2026", "today", "2026-11-24 09:30", "2026-11-24T09:30:00.123456789Z0"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
