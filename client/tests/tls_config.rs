//! Valid TLS configurations, and the errors for invalid ones.

use std::error::Error;

use crate::certificates::{Authority, pem};
use zk_curator_client::tls::{TlsConfigError, TlsConnector, TlsInput};
use zk_curator_real::TempDir;

#[test]
fn files_and_bytes_are_read() {
    let (ca, other) = (Authority::new("ca"), Authority::new("other"));
    let client = ca.client("worker");
    let directory = TempDir::new("zk-curator-tls").unwrap();
    let (ca_file, client_file) =
        (directory.path().join("ca.pem"), directory.path().join("client.pem"));
    std::fs::write(&ca_file, format!("{}\n# another one\n{}", ca.pem, other.pem)).unwrap();
    std::fs::write(&client_file, client.pem()).unwrap();
    let from_files = TlsConnector::builder()
        .ca_file(&ca_file)
        .client_certificate_file(&client_file, &client_file)
        .build();
    drop(directory);
    from_files.unwrap();

    TlsConnector::builder()
        .ca_pem(ca.pem)
        .ca_pem(other.pem)
        .client_certificate_pem(client.certificate, client.key)
        .build()
        .unwrap();

    let error = TlsConnector::builder().ca_file(&ca_file).build().unwrap_err();
    assert!(matches!(&error, TlsConfigError::Read { path, .. } if *path == ca_file), "{error}");
    assert!(error.source().is_some());
}

#[test]
fn missing_and_invalid_settings_are_named() {
    let ca = Authority::new("ca");
    let client = ca.client("worker");
    let builder = || TlsConnector::builder().ca_pem(ca.pem.clone());
    let identity = |certificate: &str, key: &str| {
        builder().client_certificate_pem(certificate, key).build().unwrap_err()
    };

    assert!(matches!(TlsConnector::builder().build(), Err(TlsConfigError::NoCa)));
    for (pem, missing) in
        [("", true), (&*client.key, true), ("-----BEGIN CERTIFICATE-----\n?\n", false)]
    {
        let error = TlsConnector::builder().ca_pem(pem).build().unwrap_err();
        match error {
            TlsConfigError::Missing { what } => assert!(missing && what == TlsInput::Ca, "{what}"),
            TlsConfigError::InvalidPem { what, .. } => {
                assert!(!missing && what == TlsInput::Ca, "{what}");
            }
            error => panic!("{error}"),
        }
    }
    let error = TlsConnector::builder().ca_pem(pem("CERTIFICATE", b"nothing")).build().unwrap_err();
    assert!(matches!(error, TlsConfigError::InvalidCa { .. }), "{error}");

    let error = identity(&client.certificate, &client.certificate);
    assert_eq!(error.to_string(), "client key is not in the PEM that was given for it");
    let error = identity(&client.key, &client.key);
    assert_eq!(error.to_string(), "client certificate is not in the PEM that was given for it");
    let error = identity(&client.certificate, &ca.client("other").key);
    assert!(matches!(error, TlsConfigError::InvalidIdentity { .. }), "{error}");
    let error = identity(&client.certificate, &pem("PRIVATE KEY", b"nothing"));
    assert!(matches!(error, TlsConfigError::InvalidIdentity { .. }), "{error}");

    let error = builder().server_name("no name").build().unwrap_err();
    assert!(matches!(error, TlsConfigError::InvalidServerName(name) if name == "no name"));
}

#[test]
fn encrypted_keys_are_refused_as_such() {
    let ca = Authority::new("ca");
    let client = ca.client("worker");
    let pkcs8 = pem("ENCRYPTED PRIVATE KEY", b"nobody looks into it");
    let traditional = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n\
                       AAAA\n-----END RSA PRIVATE KEY-----\n";
    for key in [&*pkcs8, traditional] {
        let builder = TlsConnector::builder().ca_pem(ca.pem.clone());
        let error =
            builder.client_certificate_pem(client.certificate.clone(), key).build().unwrap_err();
        assert!(matches!(error, TlsConfigError::EncryptedKey), "{error}");
    }
}

#[test]
fn nothing_secret_is_printed() {
    let ca = Authority::new("ca");
    let client = ca.client("worker");
    let builder = TlsConnector::builder()
        .ca_pem(ca.pem)
        .client_certificate_pem(client.certificate.clone(), client.key.clone())
        .server_name("zk.example");
    let mut printed = format!("{builder:?}");
    printed.push_str(&format!("{:?}", builder.build().unwrap()));
    assert!(printed.contains("zk.example") && printed.len() < 400, "{printed}");
    let bytes = format!("{:?}", client.key.as_bytes());
    for line in client.key.lines().filter(|line| !line.starts_with('-')) {
        assert!(!printed.contains(line) && !printed.contains(&bytes[1..40]), "{printed}");
    }
}
