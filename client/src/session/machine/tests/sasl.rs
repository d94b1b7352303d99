use zk_curator_proto::records::SaslToken;

use super::*;
use crate::Credentials;
use crate::connector::ConnectionFailure;
use crate::sasl::{self, SaslExchange, SaslFailure, SaslMechanism, SaslWork, Stepped};

/// Sends `first`, then `second`, and accepts one proof.
#[derive(Debug)]
struct Scripted;

impl SaslMechanism for Scripted {
    fn start(&self, host: &str) -> Box<dyn SaslExchange> {
        assert_eq!(host, "h");
        Box::new(Step(0))
    }
}

#[derive(Debug)]
struct Step(u8);

impl SaslExchange for Step {
    fn step(&mut self, token: &[u8]) -> sasl::SaslStep {
        self.0 += 1;
        sasl::SaslStep::Ready(match (self.0, token) {
            (1, b"challenge") => Ok(Some(Bytes::from_static(b"response"))),
            (2, b"proof") => Ok(None),
            _ => Err("wrong".into()),
        })
    }

    fn refused(&self) -> io::Error {
        io::Error::other("refused")
    }
}

/// The same exchange, whose steps are performed by the driver, the first one too.
#[derive(Debug)]
struct Slow;

impl SaslMechanism for Slow {
    fn start(&self, host: &str) -> Box<dyn SaslExchange> {
        Box::new(SlowStep(Some(Scripted.start(host))))
    }
}

#[derive(Debug)]
struct SlowStep(Option<Box<dyn SaslExchange>>);

impl SlowStep {
    fn work(
        &mut self,
        step: impl FnOnce(&mut dyn SaslExchange) -> sasl::SaslStep + Send + 'static,
    ) -> sasl::SaslStep {
        let mut inner = self.0.take().expect("one step at a time");
        let future = Box::pin(async move {
            let sasl::SaslStep::Ready(stepped) = step(&mut *inner) else { unreachable!() };
            (Box::new(Self(Some(inner))) as Box<dyn SaslExchange>, stepped)
        });
        sasl::SaslStep::Pending(SaslWork { future, late: io::Error::other("too late") })
    }
}

impl SaslExchange for SlowStep {
    fn begin(&mut self) -> sasl::SaslStep {
        self.work(|inner| inner.begin())
    }

    fn step(&mut self, token: &[u8]) -> sasl::SaslStep {
        let token = token.to_vec();
        self.work(move |inner| inner.step(&token))
    }

    fn refused(&self) -> io::Error {
        io::Error::other("refused")
    }
}

fn slow_rig() -> Rig {
    Rig::with("h:1", |mut builder| {
        builder.sasl = Some(Arc::new(Slow));
        builder
    })
}

/// Performs the step that the machine has requested, as the driver does, and has `change` change
/// its result.
fn perform_with(rig: &mut Rig, change: impl FnOnce(Stepped) -> Stepped) {
    assert_eq!(rig.effects(), [SessionEffect::Prove]);
    assert!(rig.sent().is_empty());
    let mut work = rig.machine.take_work().expect("a step");
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready((exchange, stepped)) = work.as_mut().poll(&mut context) else { panic!() };
    rig.machine.on_worked((exchange, change(stepped)), rig.now);
    rig.machine.deliver();
}

fn perform(rig: &mut Rig) {
    perform_with(rig, |stepped| stepped);
}

/// Opens a connection, for which the machine requests the first step.
fn open(rig: &mut Rig) {
    rig.until_connect();
    rig.connected_to();
}

/// Opens a connection with a session. The machine has sent its first token.
fn connect(rig: &mut Rig) {
    open(rig);
    perform(rig);
    rig.connect_request();
    rig.accept(TIMEOUT);
}

/// Opens a connection, and responds to the first token. The machine requests the second step.
fn challenge(rig: &mut Rig) {
    connect(rig);
    let (xid, first) = sent_token(rig);
    assert!(first.is_empty());
    rig.reply(xid, 0, token(b"challenge"));
}

/// Opens a connection, and completes the exchange.
fn prove(rig: &mut Rig) {
    challenge(rig);
    perform(rig);
    let (xid, second) = sent_token(rig);
    assert_eq!(second, "response");
    rig.reply(xid, 0, token(b"proof"));
    assert_eq!(rig.states(), []);
    perform(rig);
    assert_eq!(rig.states(), [SessionState::Connected(info(TIMEOUT))]);
}

fn no_ticket() -> SaslFailure {
    SaslFailure { why: io::Error::other("no ticket"), is_final: false }
}

fn last_failure(rig: &Rig) -> String {
    rig.machine.states.failure().expect("a failure").to_string()
}

#[test]
fn steps_that_block_are_performed_by_the_driver() {
    let mut rig = slow_rig();
    let _early = rig.get("/early");
    prove(&mut rig);
    assert_eq!(rig.sent_opcodes(), [OpCode::GetData]);
}

/// A handshake would renew the session on the server, whose locks would block others without end.
#[test]
fn a_session_without_a_first_token_expires() {
    for is_late in [false, true] {
        let mut rig = slow_rig();
        prove(&mut rig);
        rig.cut();
        assert_eq!(rig.states(), [SessionState::Disconnected]);
        let (lost, mut attempts) = (rig.now, 0);
        let ended = loop {
            let states = rig.states();
            if !states.is_empty() {
                break states;
            }
            if matches!(rig.effects()[..], [.., SessionEffect::Connect(_)]) {
                rig.connected_to();
                attempts += 1;
                if !is_late {
                    perform_with(&mut rig, |_| Err(no_ticket()));
                }
                assert!(rig.machine.output().is_empty());
            }
            rig.pass(rig.next_timer());
        };
        assert_eq!(ended, [SessionState::Expired(ExpiredBy::Clock)]);
        assert_eq!(rig.now, lost + TIMEOUT);
        assert!(attempts > 1, "{attempts}");
    }
}

#[test]
fn a_step_that_takes_too_long_is_a_failed_attempt() {
    let mut rig = slow_rig();
    open(&mut rig);
    assert_eq!(rig.effects(), [SessionEffect::Prove]);
    let mut work = rig.machine.take_work().expect("a step");
    rig.pass(rig.next_timer());
    assert!(rig.effects().contains(&SessionEffect::Disconnect));
    assert_eq!((rig.states(), last_failure(&rig).as_str()), (vec![], "h:1: too late"));
    // A result that arrives after that belongs to no connection.
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(worked) = work.as_mut().poll(&mut context) else { panic!() };
    rig.machine.on_worked(worked, rig.now);
    assert!(rig.machine.output().is_empty());
    // The next connection begins a new exchange.
    prove(&mut rig);
}

#[test]
fn a_failure_that_may_pass_is_a_failed_attempt() {
    let mut rig = slow_rig();
    for attempt in 0..10 {
        open(&mut rig);
        let why = io::Error::other(format!("no ticket {attempt}"));
        perform_with(&mut rig, |_| Err(SaslFailure { why, is_final: false }));
        assert!(rig.effects().contains(&SessionEffect::Disconnect));
        assert_eq!(last_failure(&rig), format!("h:1: no ticket {attempt}"));
    }
    challenge(&mut rig);
    perform_with(&mut rig, |_| Err(no_ticket()));
    assert_eq!((rig.states(), last_failure(&rig).as_str()), (vec![], "h:1: no ticket"));
    challenge(&mut rig);
    let why = io::Error::other("an impostor");
    perform_with(&mut rig, |_| Err(SaslFailure { why, is_final: true }));
    assert_eq!(rig.states(), [SessionState::AuthFailed]);
    let failure = rig.machine.states.failure().expect("a failure");
    assert_eq!(ConnectionFailure::of(&failure).unwrap().reason().to_string(), "an impostor");
    rig.assert_ended();
}

#[test]
fn a_server_must_not_respond_while_a_step_is_performed() {
    let mut rig = slow_rig();
    open(&mut rig);
    assert_eq!(rig.effects(), [SessionEffect::Prove]);
    rig.reply(1, 0, token(b"challenge"));
    assert!(rig.effects().contains(&SessionEffect::Disconnect));
    assert_eq!(last_failure(&rig), "h:1: the server sent data before the client");
    challenge(&mut rig);
    assert_eq!(rig.effects(), [SessionEffect::Prove]);
    rig.reply(2, 0, token(b"proof"));
    assert!(rig.effects().contains(&SessionEffect::Disconnect));
    assert_eq!(last_failure(&rig), "h:1: the server responded out of order");
    assert_eq!(rig.states(), []);
}

#[test]
fn a_connection_that_is_lost_during_a_step_is_another_attempt() {
    let mut rig = slow_rig();
    for step in [open, challenge, open, challenge] {
        step(&mut rig);
        assert_eq!(rig.effects(), [SessionEffect::Prove]);
        rig.cut();
        assert_eq!(rig.states(), []);
    }
    // There is a session since the first handshake, which closing must end.
    let mut closed = rig.close();
    assert!(is_open(&mut closed));
    challenge(&mut rig);
}

#[test]
fn closing_before_the_first_handshake_needs_no_token() {
    let mut rig = slow_rig();
    open(&mut rig);
    assert_eq!(now(rig.close()), Ok(()));
    rig.assert_ended();
}

fn rig() -> Rig {
    Rig::with("h:1", |mut builder| {
        builder.sasl = Some(Arc::new(Scripted));
        builder
    })
}

fn token(token: &'static [u8]) -> Result<Response, ErrorCode> {
    Ok(Response::Sasl(SaslToken { token: Some(Bytes::from_static(token)) }))
}

/// Returns the only request that was sent, which carries a token.
fn sent_token(rig: &mut Rig) -> (i32, Bytes) {
    let mut sent = rig.sent();
    assert_eq!(sent.len(), 1, "{sent:?}");
    match sent.remove(0) {
        Sent { xid, request: Request::Sasl(SaslToken { token: Some(token) }) } => (xid, token),
        other => panic!("{other:?}"),
    }
}

/// Runs the exchange of one connection up to the last response of the server, which the caller
/// sends.
fn exchange(rig: &mut Rig) -> i32 {
    rig.connect();
    let (xid, first) = sent_token(rig);
    assert!(xid > 0 && first.is_empty());
    rig.reply(xid, 0, token(b"challenge"));
    let (xid, second) = sent_token(rig);
    assert_eq!(second, "response");
    xid
}

#[test]
fn requests_are_sent_only_after_the_sasl_proof() {
    let mut rig = rig();
    let mut get = rig.get("/early");
    let _auth = rig.add_auth("digest");
    let xid = exchange(&mut rig);
    assert_eq!(rig.states(), []);
    assert!(is_open(&mut get));
    let _late = rig.get("/late");
    rig.reply(xid, 0, token(b"proof"));
    assert_eq!(rig.states(), [SessionState::Connected(info(TIMEOUT))]);
    assert_eq!(rig.sent_opcodes(), [OpCode::Auth, OpCode::GetData, OpCode::GetData]);
}

#[test]
fn it_is_repeated_on_every_connection_before_the_watches() {
    let mut rig = rig();
    let xid = exchange(&mut rig);
    rig.reply(xid, 0, token(b"proof"));
    let (_answer, _watch) = rig.watched(WatchPlan::Exists, "/w");
    let xid = rig.sent()[0].xid;
    rig.reply(xid, 5, Err(ErrorCode::NoNode));
    rig.cut();
    let xid = exchange(&mut rig);
    rig.reply(xid, 0, token(b"proof"));
    assert_eq!(rig.sent_opcodes(), [OpCode::SetWatches]);
}

/// The part of the timeout counts from the loss of the connection or the grant of the session, not
/// from the start.
#[test]
fn a_cut_during_the_first_proof_does_not_end_a_fresh_session() {
    let mut rig = Rig::with("h:1", |mut builder| {
        builder.sasl = Some(Arc::new(Scripted));
        builder.expiration_percent(10)
    });
    for _ in 0..20 {
        rig.until_connect();
        rig.cut_attempt();
    }
    rig.pass(TIMEOUT);
    let id = rig.connect().session_id;
    rig.cut();
    assert_eq!(rig.states(), []);
    // The session is resumed. Without a connection it lasts for the requested time.
    rig.pass(TIMEOUT / 10 - Duration::from_millis(1));
    assert_eq!(rig.states(), []);
    assert_eq!((id, rig.machine.session.is_some()), (0, true));
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.states(), [SessionState::Expired(ExpiredBy::Clock)]);
}

#[test]
fn a_refusal_or_a_server_without_proof_ends_the_client() {
    for answer in [
        Err(ErrorCode::AuthFailed),
        Err(ErrorCode::SessionClosedRequireSaslAuth),
        token(b"forged"),
        Ok(Response::Sasl(SaslToken { token: None })),
    ] {
        let mut rig = rig();
        let get = rig.get("/a");
        let xid = exchange(&mut rig);
        rig.reply(xid, 0, answer);
        assert_eq!(rig.states(), [SessionState::AuthFailed]);
        assert_eq!(now(get), Err(Error::AuthFailed { sent: false }));
        rig.assert_ended();
    }
}

#[test]
fn a_lost_connection_or_a_silent_server_is_only_another_attempt() {
    let mut rig = rig();
    exchange(&mut rig);
    rig.cut();
    exchange(&mut rig);
    rig.pass(TIMEOUT);
    assert!(rig.effects().contains(&SessionEffect::Disconnect));

    let mut rig = self::rig();
    let xid = exchange(&mut rig);
    rig.reply(xid + 1, 0, token(b"proof"));
    assert!(rig.effects().contains(&SessionEffect::Disconnect));
    let xid = exchange(&mut rig);
    rig.reply(xid, 0, Err(ErrorCode::SystemError));
    assert!(rig.effects().contains(&SessionEffect::Disconnect));
    assert_eq!(rig.states(), []);
    let xid = exchange(&mut rig);
    rig.reply(xid, 0, token(b"proof"));
    assert_eq!(rig.states(), [SessionState::Connected(info(TIMEOUT))]);
}

#[test]
fn closing_waits_for_the_proof() {
    let mut rig = rig();
    let xid = exchange(&mut rig);
    let mut closed = rig.close();
    assert!(rig.sent().is_empty() && is_open(&mut closed));
    rig.reply(xid, 0, token(b"proof"));
    let sent = rig.sent();
    assert_eq!(sent[0].request.opcode(), OpCode::CloseSession);
    rig.reply_ok(sent[0].xid);
    assert_eq!(now(closed), Ok(()));
}

#[test]
fn a_refusal_after_the_end_does_not_change_how_it_ended() {
    let mut rig = rig();
    let xid = exchange(&mut rig);
    rig.reply(xid, 0, token(b"proof"));
    rig.states();
    rig.cut();
    assert_eq!(rig.states(), [SessionState::Disconnected]);
    let ended = loop {
        let states = rig.states();
        if !states.is_empty() {
            break states;
        }
        rig.pass(rig.next_timer());
        if rig.effects().iter().any(|effect| matches!(effect, SessionEffect::Connect(_))) {
            rig.cut_attempt();
        }
    };
    assert_eq!(ended, [SessionState::Expired(ExpiredBy::Clock)]);
    // The server has yet to end the session.
    rig.connect();
    let (xid, _) = sent_token(&mut rig);
    rig.reply(xid, 0, Err(ErrorCode::AuthFailed));
    assert_eq!(rig.states(), []);
    rig.assert_ended();
}

/// Supplies nothing by itself: the test supplies the result.
#[derive(Debug)]
struct Silent;

#[async_trait::async_trait]
impl crate::CredentialsProvider for Silent {
    async fn credentials(&self) -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>> {
        std::future::pending().await
    }
}

#[test]
fn refused_credentials_are_requested_once_again() {
    let mut rig = Rig::with("h:1", |builder| builder.credentials_provider(Arc::new(Silent)));
    for refusal in 0..2 {
        rig.until_connect();
        rig.connected_to();
        // Nothing is sent before the provider has returned.
        assert_eq!((rig.effects(), rig.machine.output().len()), (vec![SessionEffect::Ask], 0));
        let credentials =
            Credentials { auth: vec![packet("token")], sasl: Some(Arc::new(Scripted)) };
        rig.machine.on_credentials(Ok(credentials), rig.now);
        frame::take(rig.machine.output(), usize::MAX).unwrap().expect("a connect request");
        rig.accept(TIMEOUT);
        let (xid, _) = sent_token(&mut rig);
        rig.reply(xid, 0, Err(ErrorCode::AuthFailed));
        let expected = if refusal == 0 { vec![] } else { vec![SessionState::AuthFailed] };
        assert_eq!(rig.states(), expected);
    }
}
