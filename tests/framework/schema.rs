//! Schemas: forbidden operations are refused before anything is sent.

use zk_curator::schema::{Allowance, Rule, Schema, SchemaSet, SchemaSetError, SchemaViolation};
use zk_curator::{Acl, CreateMode, CuratorFramework, Error, ErrorKind};
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_testing::TestServer;
use zk_curator_tests::{assert_matches, builder, connected, simulated_on, start};

async fn framework(server: &TestServer, schemas: SchemaSet) -> CuratorFramework {
    start(builder(server).schema_set(schemas)).await
}

/// Which rule of which schema an operation has broken, and on which path.
fn violation<T: std::fmt::Debug>(result: Result<T, Error>) -> (Option<String>, Rule, String) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaViolation, "{error}");
    assert!(!error.is_retryable() && !error.may_have_applied());
    let violation: &SchemaViolation = error.cause().unwrap().downcast_ref().unwrap();
    (violation.schema.clone(), violation.rule, error.path().to_owned())
}

fn of(schema: &str, rule: Rule, path: &str) -> (Option<String>, Rule, String) {
    (Some(schema.to_owned()), rule, path.to_owned())
}

#[test]
fn every_rule_is_kept_by_every_operation_that_could_break_it() {
    simulated_on(TestServer::in_memory, async |server| {
        let schemas = SchemaSet::new([
            Schema::exact("short", "/short")
                .validator(|data: &[u8]| data.len() < 4)
                .deletable(false),
            Schema::below("jobs", "/jobs").ephemeral(Allowance::Must).sequential(Allowance::Cannot),
            Schema::exact("seen", "/seen").watched(Allowance::Must),
            Schema::exact("hidden", "/hidden").watched(Allowance::Cannot),
        ]);
        let zk = framework(&server, schemas.unwrap()).await;
        let all = connected(&server).await;

        let long = of("short", Rule::Valid, "/short");
        assert_eq!(violation(zk.create("/short").data("long").await), long);
        assert_eq!(
            violation(zk.transaction().create("/x", "").create("/short", "long").commit().await),
            long
        );
        zk.create("/short").data("ok").await.unwrap();
        assert_eq!(violation(zk.set_data("/short", "long").await), long);
        assert_eq!(violation(zk.transaction().set_data("/short", "long").commit().await), long);
        let kept = of("short", Rule::Deletable, "/short");
        assert_eq!(violation(zk.delete("/short").await), kept);
        assert_eq!(violation(zk.delete("/short").guaranteed().quietly().await), kept);
        assert_eq!(violation(zk.transaction().delete("/short").commit().await), kept);
        assert_eq!(server.probe().data("/short").unwrap(), "ok");

        zk.create("/jobs").await.unwrap();
        assert_eq!(violation(zk.create("/jobs/a").await), of("jobs", Rule::Ephemeral, "/jobs/a"));
        let sequential =
            zk.create("/jobs/a-").mode(CreateMode::EphemeralSequential).protected().await;
        assert_eq!(violation(sequential), of("jobs", Rule::Sequential, "/jobs/a-"));
        zk.create("/jobs/a").mode(CreateMode::Ephemeral).await.unwrap();

        all.create("/seen").await.unwrap();
        assert_eq!(violation(zk.get_data("/seen").await), of("seen", Rule::Watched, "/seen"));
        assert_eq!(
            violation(zk.get_data("/seen").with_stat().await),
            of("seen", Rule::Watched, "/seen")
        );
        assert_eq!(violation(zk.exists("/seen").await), of("seen", Rule::Watched, "/seen"));
        assert_eq!(violation(zk.children("/seen").await), of("seen", Rule::Watched, "/seen"));
        assert!(zk.get_data("/seen").watched().await.is_ok());
        let hidden = of("hidden", Rule::Watched, "/hidden");
        assert_eq!(violation(zk.exists("/hidden").watched().await), hidden);
        assert_eq!(violation(zk.get_data("/hidden").watched().await), hidden);
        assert_eq!(violation(zk.children("/hidden").watched().await), hidden);
        assert!(zk.exists("/hidden").await.unwrap().is_none());
        assert_eq!(server.probe().paths(), ["/jobs", "/jobs/a", "/seen", "/short"]);
    });
}

#[test]
fn validators_see_schema_path_data_and_acl_as_they_were_given() {
    struct Strict;
    impl zk_curator::schema::Validator for Strict {
        fn is_valid(&self, schema: &Schema, path: &str, data: Option<&[u8]>, acl: &[Acl]) -> bool {
            schema.name() == "all"
                && path == "/a"
                && data.is_none_or(|data| data == b"data")
                && acl == Acl::creator_all()
        }
    }
    simulated_on(TestServer::in_memory, async |server| {
        let schemas = SchemaSet::new([Schema::below("all", "/").validator(Strict)]).unwrap();
        let builder =
            builder(&server).schema_set(schemas).namespace("ns").authorization("digest", "u:p");
        let zk = start(builder).await;
        zk.create("/a").data("data").acl(Acl::creator_all()).await.unwrap();
        assert_eq!(
            violation(zk.create("/b").data("data").acl(Acl::creator_all()).await).1,
            Rule::Valid
        );
        assert_eq!(violation(zk.create("/a").data("data").await).1, Rule::Valid);
        assert_eq!(violation(zk.set_acl("/a", Acl::open_unsafe()).await).1, Rule::Valid);
        zk.set_acl("/a", Acl::creator_all()).await.unwrap();
    });
}

#[test]
fn a_closed_set_forbids_what_no_schema_is_about() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk =
            framework(&server, SchemaSet::new([Schema::exact("a", "/a")]).unwrap().closed()).await;
        zk.create("/a").await.unwrap();
        assert_eq!(violation(zk.create("/b").await), (None, Rule::NoSchema, "/b".to_owned()));
        assert_eq!(violation(zk.exists("/b").await), (None, Rule::NoSchema, "/b".to_owned()));
        assert_eq!(zk.schema_set().named("a").unwrap().raw_path(), "/a");
    });
}

#[test]
fn a_recipe_works_under_its_schema() {
    simulated_on(TestServer::in_memory, async |server| {
        let schemas = [
            Schema::for_recipe_parent("orders", "/orders"),
            Schema::for_recipe("locks", "/orders"),
        ];
        let zk = framework(&server, SchemaSet::new(schemas).unwrap().closed()).await;
        let guard = InterProcessMutex::new(&zk, "/orders").acquire().await.unwrap();
        assert_eq!(violation(zk.create("/orders/file").await).1, Rule::Ephemeral);
        guard.release().await.unwrap();
    });
}

#[test]
fn a_set_has_one_schema_for_a_name_and_for_an_exact_path() {
    let set = |a, b| SchemaSet::new([a, b]).map(drop);
    let of = Schema::exact;
    assert_eq!(
        set(of("a", "/a"), of("a", "/b")),
        Err(SchemaSetError::DuplicateName("a".to_owned()))
    );
    assert_eq!(
        set(of("a", "/a"), of("b", "/a/")),
        Err(SchemaSetError::DuplicatePath("/a".to_owned()))
    );
    assert_matches!(set(of("a", "a"), of("b", "/b")), Err(SchemaSetError::InvalidPath { schema, .. })
        if schema == "a");
    let schemas = SchemaSet::new([Schema::below("below", "/a"), of("exact", "/a/b")]).unwrap();
    let of = |path| schemas.schema_of(path).map(Schema::name);
    assert_eq!(["/a", "/a/b", "/a/c/d", "/ab"].map(of), [None, Some("exact"), Some("below"), None]);
    assert!(schemas.to_string().contains("Path: /a/**"), "{schemas}");
}
