//! A client's upgrade to WebSocket (RFC 6455, section 4.1): the fields of its request, and whether the response agrees. Pure.

use super::websocket;

const KEY: &str = "Sec-WebSocket-Key";
const PROOF: &str = "Sec-WebSocket-Accept";

/// Fields of an upgrade request with this key.
pub fn fields(key: &str) -> [(&'static str, String); 4] {
    [
        ("Upgrade", "websocket".to_string()),
        ("Connection", "Upgrade".to_string()),
        (KEY, key.to_string()),
        ("Sec-WebSocket-Version", "13".to_string()),
    ]
}

/// Returns the request with those of these fields that its head lacks. A head without the empty line at its end is completed.
pub fn with_fields(request: &[u8], fields: &[(&str, String)]) -> Vec<u8> {
    const END: &[u8] = b"\r\n\r\n";
    // Each line may end with a line feed alone.
    let ends =
        |at: &usize| request.get(*at..).is_some_and(|rest| rest.starts_with(b"\n\r\n") || rest.starts_with(b"\n\n"));
    let end = (0..request.len()).find(ends).unwrap_or(request.len());
    let (head, rest) = request.split_at(end);
    let body = rest.strip_prefix(b"\n\r\n").or_else(|| rest.strip_prefix(b"\n\n")).unwrap_or_default();
    let head = head.trim_ascii_end();
    let missing = fields.iter().filter(|(name, _)| value(head, name).is_none());
    let missing: String = missing.map(|(name, value)| format!("\r\n{name}: {value}")).collect();
    [head, missing.as_bytes(), END, body].concat()
}

/// Whether the head of a response proves that the server has read the key of this request.
pub fn is_agreed(request: &[u8], response: &[u8]) -> bool {
    let key = value(request, KEY).unwrap_or_default();
    value(response, PROOF).is_some_and(|proof| proof == websocket::proof(key).as_bytes())
}

/// Returns the value of a field of a head.
fn value<'a>(head: &'a [u8], name: &str) -> Option<&'a [u8]> {
    head.split(|byte| *byte == b'\n').skip(1).take_while(|line| !line.trim_ascii().is_empty()).find_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (own, value) = line.split_at(colon);
        own.eq_ignore_ascii_case(name.as_bytes()).then(|| value.get(1..).unwrap_or_default().trim_ascii())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_fields_are_added_and_others_kept() {
        let add = [("Upgrade", "websocket".to_string()), ("X", "1".to_string())];
        let full = |request: &str| String::from_utf8(with_fields(request.as_bytes(), &add)).unwrap();
        assert_eq!(
            full("GET / HTTP/1.1\r\nupgrade: own\r\n\r\nbody"),
            "GET / HTTP/1.1\r\nupgrade: own\r\nX: 1\r\n\r\nbody"
        );
        assert_eq!(
            full("GET / HTTP/1.1\nX: 2\n\na\r\n\r\nb"),
            "GET / HTTP/1.1\nX: 2\r\nUpgrade: websocket\r\n\r\na\r\n\r\nb"
        );
        assert_eq!(full("GET / HTTP/1.1"), "GET / HTTP/1.1\r\nUpgrade: websocket\r\nX: 1\r\n\r\n");
        assert_eq!(full("GET / HTTP/1.1\r\nX: 2\r\n"), "GET / HTTP/1.1\r\nX: 2\r\nUpgrade: websocket\r\n\r\n");
    }

    #[test]
    fn only_the_proof_of_the_request_is_agreement() {
        let request = b"GET / HTTP/1.1\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        let response =
            |proof| format!("HTTP/1.1 101 Switching Protocols\r\nsec-websocket-accept: {proof}\r\n\r\n").into_bytes();
        assert!(is_agreed(request, &response("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")));
        assert!(!is_agreed(request, &response("s3pPLMBiTxaQ9kYGzzhZRbK+xOO=")));
        assert!(!is_agreed(request, b"HTTP/1.1 101 Switching Protocols\r\n\r\n"));
    }
}
