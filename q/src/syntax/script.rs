//! Splits scripts into expressions: continuation by indentation, comments, block comments.

use crate::runtime::locked;

/// Returns the expressions of a script, each with its first line number.
///
/// A line that is indented, or starts with a closing brace, continues the one before. A lone `/` opens a block comment,
/// which a lone `\` closes; a lone `\` elsewhere ends the script. A first line with `#!` is skipped. Blank lines and comments within an expression
/// are part of its text, so that the third line of a function is its third line of text; those of a block comment are blank there.
pub fn expressions(text: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut out: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut in_comment = false;
    // Lines without code since the last one with code.
    let mut between: Vec<&[u8]> = Vec::new();
    for (i, line) in without_mark(text).split(|c| *c == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let trimmed = line.trim_ascii();
        if in_comment {
            in_comment = trimmed != b"\\";
            between.push(b"");
            continue;
        }
        match line.first() {
            Some(b'#') if i == 0 && line.starts_with(b"#!") => {}
            _ if line.trim_ascii_end() == b"/" => {
                in_comment = true;
                between.push(b"");
            }
            _ if line.trim_ascii_end() == b"\\" => break,
            _ if trimmed.is_empty() || trimmed.starts_with(b"/") => between.push(line),
            Some(c) if c.is_ascii_whitespace() || *c == b'}' => {
                if let Some((_, expression)) = out.last_mut() {
                    for line in between.drain(..).chain([line]) {
                        expression.push(b'\n');
                        expression.extend_from_slice(line);
                    }
                }
            }
            _ => {
                between.clear();
                out.push((i + 1, line.to_vec()));
            }
        }
    }
    out
}

/// Text without the UTF-8 byte order mark that some editors write first: it would become part of the first name.
fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// As [`expressions`]; those of a file in another language than q, whose extension is a letter such as `.k` or `.p`, are marked with it,
/// and those of a locked script, `.q_`, as such. System commands stay as they are, and so do lines that name a language of their own: `q)x:1`.
pub fn expressions_of(file: &std::path::Path, text: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut out = expressions(text);
    let mark = match file.extension().map(|extension| extension.as_encoded_bytes()) {
        Some([letter @ b'a'..=b'z']) if *letter != b'q' => vec![*letter, b')'],
        Some(b"q_") => locked::MARK.to_vec(),
        _ => return out,
    };
    for (_, expression) in &mut out {
        if !matches!(expression[..], [b'\\', ..] | [b'a'..=b'z', b')', ..]) {
            expression.splice(..0, mark.iter().copied());
        }
    }
    out
}

/// Number of unclosed brackets outside strings and comments; negative if too many are closed.
fn open_brackets(text: &[u8]) -> i64 {
    let (mut open, mut in_text, mut escaped, mut before) = (0i64, false, false, b' ');
    let mut bytes = text.iter().copied();
    while let Some(c) = bytes.next() {
        if in_text {
            in_text = escaped || c != b'"';
            escaped = !escaped && c == b'\\';
        } else {
            match c {
                b'"' => in_text = true,
                b'(' | b'[' | b'{' => open = open.saturating_add(1),
                b')' | b']' | b'}' => open = open.saturating_sub(1),
                b'/' if before.is_ascii_whitespace() => {
                    bytes.by_ref().find(|c| *c == b'\n');
                }
                _ => {}
            }
        }
        before = c;
    }
    open
}

/// Assembles expressions from lines as they arrive. A line with an unclosed bracket continues while the next lines are
/// indented or start with a closing bracket; a lone `/` opens a block comment, which a lone `\` closes.
#[derive(Debug, Default)]
pub struct Lines {
    started: Vec<u8>,
    in_comment: bool,
    /// Whether a line has been added.
    has_begun: bool,
}

impl Lines {
    /// Adds a line; returns the expressions that are now complete.
    pub fn push(&mut self, line: &[u8]) -> Option<Vec<Vec<u8>>> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let line = if is_first { without_mark(line) } else { line }.trim_ascii_end();
        if self.in_comment {
            self.in_comment = line != b"\\";
            return None;
        }
        let mut whole = Vec::new();
        if !self.started.is_empty() {
            let goes_on = line.first().is_some_and(|c| c.is_ascii_whitespace() || b")]}".contains(c));
            if goes_on {
                self.started.push(b'\n');
                self.started.extend_from_slice(line);
                return (open_brackets(&self.started) <= 0).then(|| vec![std::mem::take(&mut self.started)]);
            }
            whole.push(std::mem::take(&mut self.started));
        }
        if line == b"/" {
            self.in_comment = true;
        } else if !line.starts_with(b"\\") && open_brackets(line) > 0 {
            self.started = line.to_vec();
        } else {
            whole.push(line.to_vec());
        }
        (!whole.is_empty()).then_some(whole)
    }

    /// At the end of input: returns the unfinished expression, if any.
    pub fn finish(&mut self) -> Option<Vec<Vec<u8>>> {
        (!self.started.is_empty()).then(|| vec![std::mem::take(&mut self.started)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(lines: &[&str]) -> Vec<String> {
        let mut reader = Lines::default();
        let mut out: Vec<Vec<u8>> = lines.iter().filter_map(|line| reader.push(line.as_bytes())).flatten().collect();
        out.extend(reader.finish().into_iter().flatten());
        out.into_iter().map(|text| String::from_utf8_lossy(&text).into_owned()).collect()
    }

    #[test]
    fn an_open_bracket_goes_on_over_indented_lines_only() {
        assert_eq!(joined(&["f:{", " x+1}", "f 1"]), ["f:{\n x+1}", "f 1"]);
        assert_eq!(joined(&["f:{", "  x", " }", "2"]), ["f:{\n  x\n }", "2"]);
        assert_eq!(joined(&["f:{", "2"]), ["f:{", "2"]);
        assert_eq!(joined(&["f:{ / a ) here", "x"]), ["f:{ / a ) here", "x"]);
    }

    #[test]
    fn brackets_in_strings_and_comments_are_none() {
        assert_eq!(joined(&["\"(\\\"(\"", " 1"]), ["\"(\\\"(\"", " 1"]);
        assert_eq!(joined(&["1 / (", "2"]), ["1 / (", "2"]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        assert_eq!(joined(&["\u{feff}a:1", "b:2"]), ["a:1", "b:2"]);
        assert_eq!(expressions("\u{feff}a:1\r\nb:2".as_bytes()), [(1, b"a:1".to_vec()), (2, b"b:2".to_vec())]);
    }

    #[test]
    fn a_block_of_comment_is_left_out() {
        assert_eq!(joined(&["1", "/", "2", "\\", "3"]), ["1", "3"]);
    }

    #[test]
    fn lines_without_code_count_within_an_expression_only() {
        let text = "f:{[x]\n  / why\n\n/ more\n/\nblock\n\\\n  x+1}\n  / of f\n\ng:1";
        let expected = "f:{[x]\n  / why\n\n/ more\n\n\n\n  x+1}";
        assert_eq!(expressions(text.as_bytes()), [(1, expected.as_bytes().to_vec()), (11, b"g:1".to_vec())]);
    }

    #[test]
    fn a_line_of_a_k_script_may_name_its_own_language() {
        let file = std::path::Path::new("a.k");
        let marked = expressions_of(file, b"a:1\n\\d .s\nq)b:2\ns)select 1\nz) x");
        let texts: Vec<Vec<u8>> = marked.into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, [&b"k)a:1"[..], b"\\d .s", b"q)b:2", b"s)select 1", b"z) x"]);
    }
}
