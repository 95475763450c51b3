//! The head of a request to an HTTP proxy, read strictly: what two programs could read in two ways is refused.

use super::host;

/// A request to the proxy.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HttpRequest {
    /// `CONNECT HOST:PORT`.
    Tunnel { host: String, port: u16 },
    /// A request with a whole `http://` address, and how it goes on to its host.
    Forward { host: String, port: u16, head: Vec<u8>, body_bytes: u64 },
}

/// What is wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadRequest {
    /// It cannot be read, or is no request to a proxy.
    Malformed,
    /// It has a body without a length.
    NoLength,
}

/// Where the head of a request ends, behind its empty line.
pub(super) fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// Reads a head with its empty line.
pub(super) fn parse(head: &[u8]) -> Result<HttpRequest, BadRequest> {
    let text = std::str::from_utf8(head).ok().filter(|text| !text.chars().any(is_forbidden));
    let mut lines = text.and_then(|text| text.strip_suffix("\r\n\r\n")).ok_or(BadRequest::Malformed)?.split("\r\n");
    let line = RequestLine::parse(lines.next().unwrap_or_default()).ok_or(BadRequest::Malformed)?;
    let fields = lines.map(field).collect::<Option<Vec<_>>>().ok_or(BadRequest::Malformed)?;
    let body_bytes = body_bytes(&fields)?;
    if line.method == "CONNECT" {
        let (host, port) = host::split(line.target, None).ok_or(BadRequest::Malformed)?;
        return Ok(HttpRequest::Tunnel { host: host.to_owned(), port });
    }
    let (host, port, path) = absolute(line.target).ok_or(BadRequest::Malformed)?;
    let head = forwarded(&line, (host, port, &path), &fields);
    Ok(HttpRequest::Forward { host: host.to_owned(), port, head, body_bytes })
}

/// A lone line feed ends a line for some servers.
fn is_forbidden(c: char) -> bool {
    c.is_control() && !matches!(c, '\r' | '\n' | '\t')
}

struct RequestLine<'a> {
    method: &'a str,
    target: &'a str,
    version: &'a str,
}

impl<'a> RequestLine<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        let is_target = target.bytes().all(|byte| byte.is_ascii_graphic());
        let is_whole = words.next().is_none() && is_token(method) && is_target;
        (is_whole && matches!(version, "HTTP/1.0" | "HTTP/1.1")).then_some(Self { method, target, version })
    }
}

fn is_token(word: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !word.is_empty() && word.bytes().all(is_plain)
}

/// A header field, its value without blanks around it.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let is_one_line = !value.contains(['\r', '\n']);
    (is_token(name) && is_one_line).then(|| (name, value.trim_matches([' ', '\t'])))
}

fn values<'a>(fields: &'a [(&str, &str)], name: &'a str) -> impl Iterator<Item = &'a str> {
    fields.iter().filter(move |field| field.0.eq_ignore_ascii_case(name)).map(|field| field.1)
}

/// The length that the body says itself; without one there is none. What comes behind it would be another request, which
/// could name another host.
fn body_bytes(fields: &[(&str, &str)]) -> Result<u64, BadRequest> {
    if values(fields, "transfer-encoding").next().is_some() {
        return Err(BadRequest::NoLength);
    }
    let mut lengths = values(fields, "content-length");
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(0),
        (Some(length), None) if !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit()) => {
            length.parse().map_err(|_| BadRequest::Malformed)
        }
        (Some(_), _) => Err(BadRequest::Malformed),
    }
}

/// The host, the port and the path of an `http://` address.
fn absolute(target: &str) -> Option<(&str, u16, String)> {
    let start = target.get(..7).filter(|start| start.eq_ignore_ascii_case("http://"))?.len();
    let rest = target[start..].split('#').next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (host, port) = host::split(authority, Some(80))?;
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Some((host, port, path))
}

/// Fields that are for this proxy alone, and the one that it writes itself.
const OWN: &[&str] = &[
    "connection",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
];

/// The head as the host receives it. The host stands in it as in the address, whatever the field `Host` said.
fn forwarded(line: &RequestLine, (host, port, path): (&str, u16, &str), fields: &[(&str, &str)]) -> Vec<u8> {
    let named: Vec<&str> = values(fields, "connection").flat_map(|value| value.split(',')).map(str::trim).collect();
    let is_kept = |name: &str| {
        let is_it = |other: &&str| name.eq_ignore_ascii_case(other);
        // The length decides where the request ends, so nobody may take it out.
        !OWN.iter().any(is_it) && (name.eq_ignore_ascii_case("content-length") || !named.iter().any(is_it))
    };
    let port = if port == 80 { String::new() } else { format!(":{port}") };
    let mut head = format!("{} {path} {}\r\nHost: {host}{port}\r\n", line.method, line.version);
    for (name, value) in fields.iter().filter(|(name, _)| is_kept(name)) {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("Connection: close\r\n\r\n");
    head.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(head: &str) -> Result<HttpRequest, BadRequest> {
        parse(head.as_bytes())
    }

    fn forwarded_as(head: &str) -> String {
        match parsed(head) {
            Ok(HttpRequest::Forward { host, port, head, body_bytes }) => {
                format!("{host} {port} {body_bytes}\n{}", String::from_utf8(head).unwrap())
            }
            other => panic!("{head}: {other:?}"),
        }
    }

    #[test]
    fn a_tunnel_names_a_host_and_a_port() {
        let tunnel = |host: &str, port| Ok(HttpRequest::Tunnel { host: host.to_owned(), port });
        assert_eq!(parsed("CONNECT example.org:443 HTTP/1.1\r\nHost: other\r\n\r\n"), tunnel("example.org", 443));
        assert_eq!(parsed("CONNECT [::1]:22 HTTP/1.0\r\n\r\n"), tunnel("[::1]", 22));
    }

    /// Escape 72: a request for one host never names another one to its server.
    #[test]
    fn escape_72_the_host_of_a_request_is_that_of_its_address() {
        assert_eq!(
            forwarded_as(
                "GET http://example.org/a?b=c#d HTTP/1.1\r\nHost: evil.example\r\nhost: worse.example\r\nA: b\r\n\r\n"
            ),
            "example.org 80 0\nGET /a?b=c HTTP/1.1\r\nHost: example.org\r\nA: b\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(
            forwarded_as(
                "POST HTTP://[::1]:8080?x HTTP/1.0\r\nContent-Length: 3\r\nConnection: A, content-length\r\nA: b\r\nProxy-Authorization: c\r\n\r\n"
            ),
            "[::1] 8080 3\nPOST /?x HTTP/1.0\r\nHost: [::1]:8080\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for head in [
            "",
            "\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET https://example.org/ HTTP/1.1\r\n\r\n",
            "GET ftp://example.org/ HTTP/1.1\r\n\r\n",
            "GET  http://example.org/ HTTP/1.1\r\n\r\n",
            "GET http://example.org/ HTTP/2\r\n\r\n",
            "GET http://example.org/ HTTP/1.1 x\r\n\r\n",
            "GET http://example.org/\tx HTTP/1.1\r\n\r\n",
            "GET http://example.org/ HTTP/1.1\r\n folded: x\r\n\r\n",
            "GET http://example.org/ HTTP/1.1\r\nA : b\r\n\r\n",
            "GET http://example.org/ HTTP/1.1\r\nA: b\nHost: x\r\n\r\n",
            "GET http://example.org/ HTTP/1.1\r\nA: b\rHost: x\r\n\r\n",
            "GET http://example.org/ HTTP/1.1\r\nA: \0\r\n\r\n",
            "GET http://example.org/\nHost:x HTTP/1.1\r\n\r\n",
            "POST http://example.org/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "POST http://example.org/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            "POST http://example.org/ HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n",
            "POST http://example.org/ HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "CONNECT example.org HTTP/1.1\r\n\r\n",
            "CONNECT http://example.org/ HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(parsed(head), Err(BadRequest::Malformed), "{head:?}");
        }
        let chunked = "POST http://example.org/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(parsed(chunked), Err(BadRequest::NoLength));
        assert_eq!(parse(b"GET http://example.org/ HTTP/1.1\r\nA: \xff\r\n\r\n"), Err(BadRequest::Malformed));
    }
}
