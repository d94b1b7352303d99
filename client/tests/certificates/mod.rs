//! Certificates for tests, created at run time.

#![allow(
    dead_code,
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "every test binary uses another part of it, and all of it is for tests"
)]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    date_time_ymd,
};

/// A CA of one test.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate.
    pub(crate) pem: String,
}

/// A certificate and its key.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Identity {
    /// Returns both in one text, as ZooKeeper requires.
    pub(crate) fn pem(&self) -> String {
        format!("{}{}", self.key, self.certificate)
    }
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = named(name);
        let certificate = params.self_signed(&key).unwrap();
        Self { pem: pem("CERTIFICATE", certificate.der()), issuer: Issuer::new(params, key) }
    }

    /// Returns the identity of a server with these names and addresses.
    pub(crate) fn server(&self, hosts: &[&str]) -> Identity {
        self.issue(named("server"), hosts, |_| {})
    }

    /// Returns the identity of the client `CN=name`.
    pub(crate) fn client(&self, name: &str) -> Identity {
        self.issue(named(name), &[], |_| {})
    }

    /// Returns the identity of a server, valid in past years.
    pub(crate) fn expired(&self, hosts: &[&str]) -> Identity {
        self.issue(named("server"), hosts, |params| {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        })
    }

    /// Returns the identity of a server, valid in future years.
    pub(crate) fn early(&self, hosts: &[&str]) -> Identity {
        self.issue(named("server"), hosts, |params| params.not_before = date_time_ymd(4000, 1, 1))
    }

    fn issue(
        &self,
        name: DistinguishedName,
        hosts: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let key = KeyPair::generate().unwrap();
        let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name = name;
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            certificate: pem("CERTIFICATE", certificate.der()),
            key: pem("PRIVATE KEY", &key.serialize_der()),
        }
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<_> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
