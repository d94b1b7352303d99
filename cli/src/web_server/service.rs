//! One connection.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Request, header};
use axum::response::Response;
use futures_util::StreamExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::Watcher;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tower::Service;

/// The time for the head of a request, which begins with the end of the one before. So it is also
/// the time that an idle connection is kept.
const HEADERS: Duration = Duration::from_secs(30);

/// Serves the requests of a connection until its end.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    router: Router,
    watcher: Watcher,
    ended: watch::Receiver<bool>,
) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        let (mut router, ended) = (router.clone(), ended.clone());
        async move { router.call(request).await.map(|response| until_ended(response, ended)) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADERS);
    let connection = server.serve_connection(TokioIo::new(stream), service);
    // An error is one of the client, which may go away at any time.
    drop(watcher.watch(connection).await);
}

/// Ends a stream of events together with the server. It would otherwise go on for minutes.
fn until_ended(response: Response, mut ended: watch::Receiver<bool>) -> Response {
    if !is_stream(response.headers()) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let end = async move {
        // An error means that the server is gone.
        drop(ended.wait_for(|is_over| *is_over).await);
    };
    let events = body.into_data_stream().take_until(Box::pin(end));
    Response::from_parts(parts, Body::from_stream(events))
}

fn is_stream(headers: &HeaderMap) -> bool {
    let media = headers.get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok());
    media.is_some_and(|media| media.starts_with("text/event-stream"))
}
