//! The part of HTTP that a driver needs: one request on a connection, with a body of a known
//! length.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// The greatest length of the head of a response, in bytes.
const LONGEST_HEAD: u64 = 64 << 10;
/// The greatest length of the body of a response, in bytes. A picture of a page is the longest one.
const LONGEST_BODY: usize = 64 << 20;

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Sends a request with a body in JSON, which may be empty, and reads the response.
pub(crate) async fn send(
    addr: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> io::Result<Response> {
    let mut stream = TcpStream::connect(addr).await?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\
         Content-Type: application/json; charset=utf-8\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    receive(BufReader::new(stream)).await
}

async fn receive(stream: impl AsyncBufRead + Unpin) -> io::Result<Response> {
    let mut head = stream.take(LONGEST_HEAD);
    let status = line(&mut head).await?;
    let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| malformed("a status"))?;
    let mut length: Option<usize> = None;
    loop {
        let line = line(&mut head).await?;
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok();
        }
    }
    let length = length.filter(|&length| length <= LONGEST_BODY);
    let mut body = vec![0; length.ok_or_else(|| malformed("a length"))?];
    head.into_inner().read_exact(&mut body).await?;
    Ok(Response { status, body })
}

/// Reads a line, without its end.
async fn line(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    match line.strip_suffix('\n') {
        Some(line) => Ok(line.trim_end_matches('\r').to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a response without {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn received(response: &str) -> io::Result<Response> {
        receive(response.as_bytes()).await
    }

    #[tokio::test]
    async fn a_response_has_a_status_and_a_body_of_its_length() {
        let response = received(
            "HTTP/1.1 404 Not Found\r\ncontent-LENGTH: 3\r\nConnection: close\r\n\r\n{} and more",
        );
        let expected = Response { status: 404, body: b"{} ".to_vec() };
        assert_eq!(response.await.unwrap(), expected);
    }

    #[tokio::test]
    async fn a_response_that_is_not_complete_is_an_error() {
        for (response, kind) in [
            ("", io::ErrorKind::UnexpectedEof),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3", io::ErrorKind::UnexpectedEof),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", io::ErrorKind::UnexpectedEof),
            ("HTTP/1.1 OK\r\n\r\n", io::ErrorKind::InvalidData),
            ("HTTP/1.1 200 OK\r\n\r\n{}", io::ErrorKind::InvalidData),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", io::ErrorKind::InvalidData),
        ] {
            assert_eq!(received(response).await.unwrap_err().kind(), kind, "{response:?}");
        }
    }
}
