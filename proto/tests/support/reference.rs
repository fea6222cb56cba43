//! A second compressor that follows the format's description item by item, without regard to speed.

/// Compresses a little-endian message; `None` if a sender would give up.
pub fn compress(message: &[u8]) -> Option<Vec<u8>> {
    let mut items: Vec<Vec<u8>> = Vec::new();
    let mut out = message[..4].to_vec();
    out[2] = 1;
    out.extend([0; 4]);
    out.extend((message.len() as u32).to_le_bytes());
    let mut last_seen = [0usize; 256];
    let mut pending: Option<(usize, usize)> = None;
    let mut flags = 0u8;
    let mut at = 8;
    while at < message.len() {
        if items.is_empty() && out.len() as i64 > message.len() as i64 / 2 - 17 {
            return None;
        }
        let hash = (message.len() - at > 2).then(|| usize::from(message[at] ^ message[at + 1]));
        let candidate = hash.map(|hash| last_seen[hash]).filter(|seen| *seen > 0 && message[*seen] == message[at]);
        if let Some((hash, position)) = pending.take() {
            last_seen[hash] = position;
        }
        match (hash, candidate) {
            (Some(hash), Some(seen)) => {
                last_seen[hash] = at;
                let mut extra = 0;
                while extra < 255
                    && at + 2 + extra < message.len()
                    && message[at + 2 + extra] == message[seen + 2 + extra]
                {
                    extra += 1;
                }
                flags |= 1 << items.len();
                items.push(vec![hash as u8, extra as u8]);
                at += 2 + extra;
            }
            (hash, _) => {
                pending = hash.map(|hash| (hash, at));
                items.push(vec![message[at]]);
                at += 1;
            }
        }
        if items.len() == 8 || at == message.len() {
            out.push(flags);
            out.extend(items.drain(..).flatten());
            flags = 0;
        }
    }
    let total = (out.len() as u32).to_le_bytes();
    out[4..8].copy_from_slice(&total);
    Some(out)
}
