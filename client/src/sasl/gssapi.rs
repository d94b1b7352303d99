//! GSSAPI (RFC 4752), over any security context. ZooKeeper uses `qop=auth` only.
//!
//! 1. The client sends the first token of the context: its ticket, and a request for mutual
//!    authentication.
//! 2. The server responds with a token for which it needs its own key. The client responds with an
//!    empty token.
//! 3. The server offers security layers for the rest of the connection: four bytes, protected by
//!    the context.
//! 4. The client chooses no layer: four bytes, protected by the context, and no authorization
//!    identity, which means the principal of the ticket.
//! 5. The server accepts with an empty token.

use bytes::Bytes;

/// The bit of "no security layer" in an offer, and in a choice.
const NO_LAYER: u8 = 1;

/// The choice of no security layer; without one, the largest message has the length zero.
const CHOICE: [u8; 4] = [NO_LAYER, 0, 0, 0];

/// A security context of a client.
pub(super) trait GssapiContext {
    /// An error of the security library.
    type Error;

    /// Takes a token of the server, none at first, and returns the next token, if there is one.
    fn establish(&mut self, token: Option<&[u8]>) -> Result<Option<Bytes>, Self::Error>;

    /// Returns `true` if the context is complete.
    fn is_established(&self) -> bool;

    /// Returns `true` if the server has authenticated itself.
    fn is_mutual(&self) -> Result<bool, Self::Error>;

    /// Protects the integrity of a message.
    fn wrap(&mut self, message: &[u8]) -> Result<Bytes, Self::Error>;

    /// Checks a message from the server, and returns it without its protection.
    fn unwrap(&mut self, message: &[u8]) -> Result<Bytes, Self::Error>;
}

/// The reason why an exchange failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ExchangeFault<E> {
    /// There is no first token. The server is not at fault.
    Begin(E),
    /// The server cannot prove that it is the service of the ticket.
    Unproven(E),
    /// The server deviates from the mechanism.
    Protocol(&'static str),
}

/// An exchange on one connection.
#[derive(Debug)]
pub(super) struct GssapiExchange<C> {
    context: C,
    state: LastMessage,
}

/// The last message of the client.
#[derive(Debug)]
enum LastMessage {
    /// No message.
    Begun,
    /// 1, a token of the context. The server must prove itself.
    Establishing,
    /// 2, the end of the context.
    Established,
    /// 4, the choice of no layer.
    Chosen,
    /// The exchange is over.
    Done,
}

impl<C: GssapiContext> GssapiExchange<C> {
    pub(super) const fn new(context: C) -> Self {
        Self { context, state: LastMessage::Begun }
    }

    /// Takes a token of the server, an empty one at first, and returns the response; `None` when
    /// both sides are authenticated. After a failure the exchange is over.
    pub(super) fn advance(
        &mut self,
        token: &[u8],
    ) -> Result<Option<Bytes>, ExchangeFault<C::Error>> {
        let (answer, state) = match std::mem::replace(&mut self.state, LastMessage::Done) {
            LastMessage::Begun => (self.begin()?, LastMessage::Establishing), // 1
            LastMessage::Establishing => self.establish(token)?,              // 2
            LastMessage::Established => (self.choose(token)?, LastMessage::Chosen), // 3, 4
            LastMessage::Chosen if token.is_empty() => return Ok(None),       // 5
            LastMessage::Chosen | LastMessage::Done => {
                return Err(ExchangeFault::Protocol(
                    "the server continues after the end of the exchange",
                ));
            }
        };
        self.state = state;
        Ok(Some(answer))
    }

    fn begin(&mut self) -> Result<Bytes, ExchangeFault<C::Error>> {
        let token = self.context.establish(None).map_err(ExchangeFault::Begin)?;
        token.ok_or(ExchangeFault::Protocol("the mechanism has no first token"))
    }

    fn establish(&mut self, token: &[u8]) -> Result<(Bytes, LastMessage), ExchangeFault<C::Error>> {
        // A context without mutual authentication would be complete already.
        if self.context.is_established() || token.is_empty() {
            return Err(ExchangeFault::Protocol("the server did not prove its identity"));
        }
        let answer = self.context.establish(Some(token)).map_err(ExchangeFault::Unproven)?;
        if !self.context.is_established() {
            let answer =
                answer.ok_or(ExchangeFault::Protocol("the mechanism has no next token"))?;
            return Ok((answer, LastMessage::Establishing));
        }
        if !self.context.is_mutual().map_err(ExchangeFault::Unproven)? {
            return Err(ExchangeFault::Protocol("the server did not prove its identity"));
        }
        Ok((answer.unwrap_or_default(), LastMessage::Established))
    }

    fn choose(&mut self, token: &[u8]) -> Result<Bytes, ExchangeFault<C::Error>> {
        let offer = self.context.unwrap(token).map_err(ExchangeFault::Unproven)?;
        match offer[..] {
            [layers, _, _, _] if layers & NO_LAYER != 0 => {
                self.context.wrap(&CHOICE).map_err(ExchangeFault::Unproven)
            }
            [_, _, _, _] => Err(ExchangeFault::Protocol(
                "the server wants integrity or confidentiality of SASL, which ZooKeeper cannot have",
            )),
            _ => Err(ExchangeFault::Protocol(
                "the offer of security layers does not have four bytes",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A context that takes these tokens of the server, and protects messages with a prefix.
    #[derive(Debug)]
    struct Scripted {
        expected: &'static [&'static [u8]],
        step: usize,
        has_ticket: bool,
        mutual: bool,
    }

    const SIGNED: &[u8] = b"signed:";

    impl GssapiContext for Scripted {
        type Error = &'static str;

        fn establish(&mut self, token: Option<&[u8]>) -> Result<Option<Bytes>, Self::Error> {
            if !self.has_ticket {
                return Err("no ticket");
            }
            let step = self.step;
            self.step += 1;
            match token {
                None if step == 0 => Ok(Some(Bytes::from_static(b"ticket"))),
                Some(token) if self.expected.get(step - 1) == Some(&token) => {
                    Ok((!self.is_established()).then(|| Bytes::from_static(b"more")))
                }
                _ => Err("wrong token"),
            }
        }

        fn is_established(&self) -> bool {
            self.step > self.expected.len()
        }

        fn is_mutual(&self) -> Result<bool, Self::Error> {
            Ok(self.mutual)
        }

        fn wrap(&mut self, message: &[u8]) -> Result<Bytes, Self::Error> {
            Ok([SIGNED, message].concat().into())
        }

        fn unwrap(&mut self, message: &[u8]) -> Result<Bytes, Self::Error> {
            message.strip_prefix(SIGNED).map(Bytes::copy_from_slice).ok_or("not signed")
        }
    }

    fn with(expected: &'static [&'static [u8]]) -> GssapiExchange<Scripted> {
        GssapiExchange::new(Scripted { expected, step: 0, has_ticket: true, mutual: true })
    }

    /// Returns an exchange after these responses to tokens of the server.
    fn after(tokens: &[(&[u8], &[u8])]) -> GssapiExchange<Scripted> {
        let mut exchange = with(&[b"proof"]);
        for (token, answer) in tokens {
            assert_eq!(exchange.advance(token).unwrap().as_deref(), Some(*answer));
        }
        exchange
    }

    const TICKET: (&[u8], &[u8]) = (b"", b"ticket");
    const PROOF: (&[u8], &[u8]) = (b"proof", b"");
    const OFFER: (&[u8], &[u8]) = (b"signed:\x01\0\0\0", b"signed:\x01\0\0\0");

    #[test]
    fn both_sides_prove_themselves_and_choose_no_layer() {
        let mut exchange = after(&[TICKET, PROOF, OFFER]);
        assert_eq!(exchange.advance(b""), Ok(None));
        exchange.advance(b"").unwrap_err();
        // A server that could do more, with messages of any size.
        let mut exchange = after(&[TICKET, PROOF]);
        let chosen = exchange.advance(b"signed:\x07\xff\xff\xff").unwrap();
        assert_eq!(chosen.as_deref(), Some(OFFER.1));
    }

    #[test]
    fn a_context_may_take_several_tokens() {
        let mut exchange = with(&[b"one", b"two"]);
        for (token, answer) in [(b"".as_slice(), b"ticket".as_slice()), (b"one", b"more")] {
            assert_eq!(exchange.advance(token).unwrap().as_deref(), Some(answer));
        }
        assert_eq!(exchange.advance(b"two").unwrap().as_deref(), Some(b"".as_slice()));
    }

    #[test]
    fn a_server_must_prove_itself_with_its_first_token() {
        for (token, fault) in [
            (b"".as_slice(), ExchangeFault::Protocol("the server did not prove its identity")),
            (b"forged", ExchangeFault::Unproven("wrong token")),
            (OFFER.0, ExchangeFault::Unproven("wrong token")),
        ] {
            let mut exchange = after(&[TICKET]);
            assert_eq!(exchange.advance(token), Err(fault));
            // There is no second attempt.
            exchange.advance(b"proof").unwrap_err();
        }
        for (expected, mutual) in [([b"proof".as_slice()].as_slice(), false), (&[], true)] {
            let mut exchange = with(if expected.is_empty() { &[] } else { &[b"proof"] });
            exchange.context.mutual = mutual;
            exchange.advance(b"").unwrap();
            let fault = ExchangeFault::Protocol("the server did not prove its identity");
            assert_eq!(exchange.advance(b"proof"), Err(fault), "{expected:?}");
        }
    }

    #[test]
    fn an_offer_must_be_signed_and_allow_no_layer() {
        for token in [
            b"".as_slice(),
            b"\x01\0\0\0",
            b"signed:",
            b"signed:\x01\0\0",
            b"signed:\x01\0\0\0\0",
            b"signed:\x06\0\0\0",
            b"signed:\0\0\0\0",
        ] {
            let mut exchange = after(&[TICKET, PROOF]);
            exchange.advance(token).unwrap_err();
            exchange.advance(OFFER.0).unwrap_err();
        }
        after(&[TICKET, PROOF, OFFER]).advance(b"more").unwrap_err();
    }

    #[test]
    fn a_missing_ticket_is_not_a_fault_of_the_server() {
        let mut exchange = with(&[b"proof"]);
        exchange.context.has_ticket = false;
        assert_eq!(exchange.advance(b""), Err(ExchangeFault::Begin("no ticket")));
    }
}
