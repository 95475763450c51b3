//! Tests which addresses are allowed and refused, with real connections. `tests/it/fetch.rs` tests the tool as a call.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::mpsc;

use super::*;

#[test]
fn text_is_decoded_by_its_declared_charset() {
    for (content_type, bytes, expected) in [
        ("text/html; charset=iso-8859-1", b"caf\xe9".as_slice(), "café"),
        ("text/html", b"<meta charset=\"windows-1251\">\xcf", "<meta charset=\"windows-1251\">П"),
        ("text/plain", "ü".as_bytes(), "ü"),
        ("text/plain; charset=nonsense", "ü".as_bytes(), "ü"),
        ("text/plain; charset=iso-8859-1", b"\xef\xbb\xbf\xc3\xbc", "ü"),
    ] {
        assert_eq!(decode(content_type, bytes), expected);
    }
}

/// One server accepts the connection and sends nothing; another never stops sending.
#[tokio::test]
async fn r45_a_page_that_never_ends_times_out() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endless = TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses = [silent.local_addr().unwrap(), endless.local_addr().unwrap()];
    std::thread::spawn(move || {
        let mut stream = endless.accept().unwrap().0;
        let _ = stream.read(&mut [0; 4096]).unwrap();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n");
        // Until the client disconnects.
        while stream.write_all(b".").is_ok() {
            std::thread::yield_now();
        }
    });
    for address in addresses {
        let url = format!("http://{address}/");
        let error = fetch_within(&url, NetworkPolicy::Anywhere, &|_, _| Ok(()), Duration::from_millis(100))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(&url) && error.contains("it took longer than 0.1 s"), "{error}");
    }
}

/// An address can be written as a number in several forms.
#[test]
fn an_address_that_is_not_public_is_refused_in_every_form() {
    for url in [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://127.1:8080/x",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://169.254.169.254/latest",
        "http://[fd00:ec2::254]/",
        "https://10.0.0.1/",
        "http://0/",
    ] {
        let url = Url::parse(url).unwrap();
        assert!(
            check(&url, NetworkPolicy::Public).unwrap_err().to_string().contains("not on the public internet"),
            "{url}"
        );
        assert!(check(&url, NetworkPolicy::Anywhere).is_ok(), "{url}");
    }
    for url in ["ftp://site.example/", "file:///etc/passwd", "http://me:secret@site.example/"] {
        assert!(check(&Url::parse(url).unwrap(), NetworkPolicy::Anywhere).is_err(), "{url}");
    }
}

/// A server at its own loopback address.
struct Site {
    address: SocketAddr,
    /// The paths of the requests that it received.
    asked: mpsc::Receiver<String>,
}

impl Site {
    /// Redirects `/to/TARGET` to that target; any other path is a page.
    fn at(host: [u8; 4]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::from(host), 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (asking, asked) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let Some(path) = lines.next().and_then(|line| Some(line.split(' ').nth(1)?.to_owned())) else {
                    continue;
                };
                let _: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let first = path.strip_prefix("/to/").map_or_else(
                    || "200 OK\r\ncontent-type: text/plain".to_owned(),
                    |target| format!("302 Found\r\nlocation: {target}"),
                );
                // Sent before the response: whoever has the response finds the path.
                let _ = asking.send(path);
                let answer = format!("HTTP/1.1 {first}\r\ncontent-length: 4\r\nconnection: close\r\n\r\npage");
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.try_iter().collect()
    }
}

/// R45, R41: an allowed page cannot redirect the fetch to an address that is not allowed.
#[tokio::test]
async fn r45_a_redirect_is_checked_like_the_first_address() {
    let (open, inner) = (Site::at([127, 0, 0, 2]), Site::at([127, 0, 0, 1]));
    let network = NetworkPolicy::Only(open.address.ip());
    let redirected =
        async |target: &str| fetch(&format!("http://{}/to/{target}", open.address), network, &|_, _| Ok(())).await;

    let elsewhere = format!("http://{}/end", open.address);
    let fetched = redirected(&elsewhere).await.unwrap();
    assert!(fetched.head.starts_with(&elsewhere) && fetched.text == "page", "{}", fetched.head);
    assert_eq!(open.asked(), [&format!("/to/{elsewhere}"), "/end"]);

    let port = inner.address.port();
    let refused = "is not on the public internet";
    for (target, expected) in [
        (format!("http://127.0.0.1:{port}/"), refused),
        (format!("http://2130706433:{port}/"), refused),
        (format!("http://[::ffff:127.0.0.1]:{port}/"), refused),
        (format!("//127.0.0.1:{port}/"), refused),
        // By a name, which is resolved first.
        (format!("http://localhost:{port}/"), refused),
        (format!("http://{}/to/http://localhost:{port}/", open.address), refused),
        ("http://169.254.169.254/latest/meta-data".to_owned(), refused),
        ("file:///etc/passwd".to_owned(), "only http:// and https://"),
        ("ftp://127.0.0.2/".to_owned(), "only http:// and https://"),
        ("data:text/plain,hello".to_owned(), "only http:// and https://"),
    ] {
        let error = redirected(&target).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{target}: {error}");
        assert!(open.asked().contains(&format!("/to/{target}")), "{target}: the redirect was followed");
    }
    assert_eq!(inner.asked(), [""; 0], "no connection was made");
    // The inner server works: a fetch that is allowed everywhere reaches it.
    let anywhere = format!("http://{}/to/http://{}/", open.address, inner.address);
    assert_eq!(fetch(&anywhere, NetworkPolicy::Anywhere, &|_, _| Ok(())).await.unwrap().text, "page");
    assert_eq!(inner.asked(), ["/"]);
}
