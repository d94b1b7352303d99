use zk_curator_discovery::rest::Purge;
use zk_curator_discovery::{Registration, ServiceDiscovery, ServiceInstance};

use super::failure::Failure;
use super::row::list;
use super::stage::Stage;

fn discovery(stage: &Stage) -> ServiceDiscovery<()> {
    ServiceDiscovery::new(&stage.zk, stage.at())
}

fn instance() -> ServiceInstance<()> {
    let instance = ServiceInstance::builder("orders").id("a").address("10.0.0.1");
    instance.payload(()).build().unwrap()
}

async fn registered(stage: &Stage) -> Result<Registration<()>, Failure> {
    Ok(discovery(stage).register(instance()).await?)
}

list! {
    "discovery::ServiceDiscovery::register": |s| {} => registered(&s).await?;
    "discovery::ServiceDiscovery::names": |s| { let kept = registered(&s).await?; } =>
        (discovery(&s).names().await?, kept);
    "discovery::ServiceDiscovery::instances": |s| { let kept = registered(&s).await?; } =>
        (discovery(&s).instances("orders").await?, kept);
    "discovery::ServiceDiscovery::instance": |s| { let kept = registered(&s).await?; } =>
        (discovery(&s).instance("orders", "a").await?, kept);
    "discovery::ServiceDiscovery::inspect": |s| { let kept = registered(&s).await?; } =>
        (discovery(&s).inspect().await?, kept);
    "discovery::ServiceCache::loaded": |s| { let kept = registered(&s).await?; } => {
        let cache = discovery(&s).cache("orders");
        cache.loaded().await?;
        (cache, kept)
    };
    "discovery::ServiceCache::synced": |s| { let kept = registered(&s).await?; } => {
        let cache = discovery(&s).cache("orders");
        cache.synced().await?;
        (cache, kept)
    };
    "discovery::ServiceEvents::next": |s| { let kept = registered(&s).await?; } => {
        let cache = discovery(&s).cache("orders");
        cache.events().next().await.ok_or_else(|| Failure::new("it ends"))?;
        (cache, kept)
    };
    "discovery::ServiceProvider::wait_ready": |s| { let kept = registered(&s).await?; } => {
        let provider = discovery(&s).provider("orders").start();
        provider.wait_ready(1).await?;
        (provider, kept)
    };
    "discovery::Registration::update": |s| { let mut kept = registered(&s).await?; } => {
        kept.update(|instance| instance.port = Some(1)).await?;
        kept
    };
    "discovery::Registration::drain": |s| { let mut kept = registered(&s).await?; } => {
        kept.drain().await?;
        kept
    };
    "discovery::Registration::resume": |s| {
        let mut kept = registered(&s).await?;
        kept.drain().await?;
    } => {
        kept.resume().await?;
        kept
    };
    "discovery::Registration::touch": |s| { let mut kept = registered(&s).await?; } => {
        kept.touch().await?;
        kept
    };
    "discovery::Registration::registered": |s| { let kept = registered(&s).await?; } => {
        kept.registered().await?;
        kept
    };
    "discovery::Registration::unregister": |s| { let mut kept = registered(&s).await?; } =>
        kept.unregister().await?;
    "discovery::Purge::once": |s| { let kept = registered(&s).await?; } =>
        (Purge::new(&discovery(&s), std::time::Duration::from_secs(60)).once().await?, kept);
    "discovery::Registration::ungate": |s| { let mut kept = registered(&s).await?; } => {
        kept.ungate().await?;
        kept
    };
    "discovery::RegistrationEvents::next": |s| { let kept = registered(&s).await?; } => {
        kept.events().next().await.ok_or_else(|| Failure::new("it ends"))?;
        kept
    };
}
