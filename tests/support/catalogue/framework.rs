use futures_util::future::join;
use zk_curator::certain::{self, Ids, Receipt, ReceiptPool, ResolvedOutcome};
use zk_curator::model::{ModelNode, ModelSpec};
use zk_curator::path::ZPath;
use zk_curator::{Acl, CreateMode, OwnedNode};

use super::failure::Failure;
use super::row::list;
use super::stage::Stage;

/// An ephemeral node of this framework.
async fn owned(stage: &Stage) -> Result<OwnedNode, Failure> {
    Ok(stage.zk.create(stage.at()).mode(CreateMode::Ephemeral).owned().await?)
}

zk_curator::path_template!(ModelPath = "/at/{name}": name: &str);

const MODEL: ModelSpec<ModelPath, u8> = ModelPath::spec();

/// A node of a model. Its path is as bad as that of the call.
fn model(stage: &Stage) -> ModelNode<u8> {
    stage.zk.model(MODEL).at(if stage.at().contains("//") { "" } else { "a" })
}

async fn modelled(stage: &Stage) -> Result<(), Failure> {
    stage.make().await?;
    model(stage).create(&1).await?;
    Ok(())
}

list! {
    "framework::CreateBuilder::into_future": |s| {} => s.zk.create(s.at()).data("1").await?;
    "framework::CreateBuilder::into_future, protected": |s| {} =>
        s.zk.create(s.below("a")).mode(CreateMode::EphemeralSequential)
            .creating_parents_as_containers().protected().await?;
    "framework::CreateBuilder::into_future, idempotent": |s| {} =>
        s.zk.create(s.below("a")).creating_parents().data("1").idempotent().await?;
    "framework::CreateBuilder<Owned>::into_future": |s| {} =>
        s.zk.create(s.at()).mode(CreateMode::Ephemeral).owned().await?;
    "framework::CreateBuilder<OwnedWithSiblings>::into_future": |s| {} =>
        s.zk.create(s.below("a-")).mode(CreateMode::EphemeralSequential)
            .creating_parents_as_containers().protected().owned_with_siblings().await?;
    "framework::CreateBuilder<OwnedWithData>::into_future": |s| { s.make().await?; } =>
        s.zk.create(s.beside("a")).mode(CreateMode::Ephemeral).owned_with_data(s.at()).await?;
    "framework::OwnedNode::delete": |s| { let node = owned(&s).await?; } => node.delete().await?;
    "framework::Ownership::confirm": |s| { let node = owned(&s).await?; } => {
        drop(node.ownership().confirm().await?);
        node
    };
    "framework::Ownership::lost": |s| { let node = owned(&s).await?; } =>
        s.and_delete(node.ownership().lost(), s.at()).await?;
    "framework::Ownership::lost_or": |s| { let node = owned(&s).await?; } =>
        s.and_delete(node.ownership().lost_or(|_| false), s.at()).await?;
    "framework::Ownership::lost_by": |s| {
        let node = owned(&s).await?;
        let watch = node.ownership().confirm().await?.expect("the node exists");
    } => s.and_delete(node.ownership().lost_by(watch), s.at()).await?;
    "framework::Ownership::over": |s| { let node = owned(&s).await?; } => {
        let both = join(node.ownership().over(), node.ownership().lost());
        s.and_delete(both, s.at()).await?
    };
    "framework::CreateContainersBuilder::into_future": |s| {} =>
        s.zk.create_containers(s.below("a")).await?;
    "framework::DeleteBuilder::into_future": |s| { s.make().await?; } => s.zk.delete(s.at()).await?;
    "framework::DeleteBuilder::into_future, guaranteed": |s| { s.make().await?; } =>
        s.zk.delete(s.at()).guaranteed().await?;
    "framework::DeleteBuilder::into_future, children": |s| {
        s.zk.create(s.below("a")).creating_parents().await?;
    } => s.zk.delete(s.at()).deleting_children().quietly().await?;
    "framework::SetDataBuilder::into_future": |s| { s.make().await?; } =>
        s.zk.set_data(s.at(), "1").await?;
    "framework::SetAclBuilder::into_future": |s| { s.make().await?; } =>
        s.zk.set_acl(s.at(), Acl::open_unsafe()).await?;
    "framework::GetAclBuilder::into_future": |s| {
        s.make().await?;
    } => s.zk.get_acl(s.at()).await?;
    "framework::GetAclBuilder<WithStat>::into_future": |s| { s.make().await?; } =>
        s.zk.get_acl(s.at()).with_stat().await?;
    "framework::GetDataBuilder::into_future": |s| {
        s.make().await?;
    } => s.zk.get_data(s.at()).await?;
    "framework::GetDataBuilder<WithStat>::into_future": |s| { s.make().await?; } =>
        s.zk.get_data(s.at()).linearizable().with_stat().await?;
    "framework::GetDataBuilder<Watched>::into_future": |s| { s.make().await?; } =>
        s.zk.get_data(s.at()).watched().await?;
    "framework::ExistsBuilder::into_future": |s| {} => s.zk.exists(s.at()).await?;
    "framework::ExistsBuilder<Watched>::into_future": |s| {} =>
        s.zk.exists(s.at()).watched().await?;
    "framework::ChildrenBuilder::into_future": |s| {
        s.make().await?;
    } => s.zk.children(s.at()).await?;
    "framework::ChildrenBuilder<WithStat>::into_future": |s| { s.make().await?; } =>
        s.zk.children(s.at()).synced().with_stat().await?;
    "framework::ChildrenBuilder<Watched>::into_future": |s| { s.make().await?; } =>
        s.zk.children(s.at()).watched().await?;
    "framework::ChildrenWithDataBuilder::into_future": |s| {
        s.zk.create(s.below("a")).creating_parents().await?;
    } => s.zk.children_with_data(s.at()).await?;
    "framework::TreeBuilder::into_future": |s| {
        s.zk.create(s.below("a")).creating_parents().await?;
    } => s.zk.tree(s.at()).await?;
    "framework::ChildrenOfEachBuilder::into_future": |s| { s.make().await?; } =>
        s.zk.children_of_each([s.at()]).await?;
    "framework::MultiReadBuilder::into_future": |s| { s.make().await?; } =>
        s.zk.multi_read().get_data(s.at()).await?;
    "framework::EphemeralsBuilder::into_future": |s| {} => s.zk.get_ephemerals(s.at()).await?;
    "framework::AllChildrenNumberBuilder::into_future": |s| { s.make().await?; } =>
        s.zk.get_all_children_number(s.at()).await?;
    "framework::WhoAmIBuilder::into_future": |s| {} => s.zk.who_am_i().await?;
    "framework::ConfigBuilder::into_future": |s| {} => s.zk.get_config().await?;
    "framework::ConfigBuilder<Watched>::into_future": |s| {} => s.zk.get_config().watched().await?;
    "framework::SyncBuilder::into_future": |s| {} => s.zk.sync(s.at()).await?;
    "framework::ChangesSinceBuilder::into_future": |s| { s.make().await?; } =>
        s.zk.changes_since(0).await?;
    "framework::AddWatchBuilder::into_future": |s| {} => s.zk.add_watch(s.at()).await?;
    "framework::RemoveWatchesBuilder::into_future": |s| {
        let watch = s.zk.add_watch(s.at()).await?;
    } => {
        s.zk.remove_watches(s.at()).await?;
        watch
    };
    "framework::PersistentWatch::next": |s| {
        let mut watch = s.zk.add_watch(s.at()).await?;
    } => s.and_create(watch.next()).await?;
    "framework::DataWatch::next": |s| { s.make().await?; } => s.zk.watch_data(s.at()).next().await?;
    "framework::ChildrenWatch::next": |s| { s.make().await?; } =>
        s.zk.watch_children(s.at()).next().await?;
    "framework::ChildrenDiff::next": |s| { s.zk.create(s.below("a")).creating_parents().await?; } =>
        s.zk.watch_children(s.at()).diff().next().await?;
    "framework::TypedWatch::next": |s| { s.make().await?; } =>
        s.zk.typed::<u8>().watch(s.at()).next().await?;
    "framework::CuratorFramework::wait_exists": |s| {} =>
        s.and_create(s.zk.wait_exists(s.at())).await??;
    "framework::CuratorFramework::wait_gone": |s| { s.make().await?;} =>
        s.and_delete(s.zk.wait_gone(s.at()), s.at()).await??;
    "framework::CuratorFramework::wait_data": |s| {} =>
        s.and_create(s.zk.wait_data(s.at(), |data| data == "1")).await??;
    "framework::CuratorFramework::wait_connected": |s| {} => s.zk.wait_connected().await?;
    "framework::CuratorFramework::in_one_session": |s| {} => {
        let (at, zk) = (s.at(), s.zk.clone());
        zk.in_one_session(|zk| {
            s.call_back();
            zk.create(&at).mode(CreateMode::Ephemeral).owned().into_future()
        }).await?
    };
    "framework::CuratorFramework::through_outages": |s| {} => {
        s.zk.through_outages(|| {
            s.call_back();
            s.zk.exists(s.at()).into_future()
        }).await?
    };
    "framework::Transaction::into_future": |s| {} =>
        s.zk.transaction().create(s.at(), "1").create(s.below("a"), "").await?;
    "framework::Transaction::commit": |s| { s.make().await?; } =>
        s.zk.transaction().set_data(s.at(), "1").commit().await?;
    "framework::CertainTransaction::into_future": |s| { s.make().await?; } => {
        let receipt = Receipt::new(&s.zk, s.at());
        s.zk.transaction().create(s.below("a"), "1").certain(&receipt).await?;
        receipt
    };
    "framework::CertainTransaction::commit": |s| { s.make().await?; } => {
        let receipt = Receipt::new(&s.zk, s.at());
        s.zk.set_data(s.at(), "1").certain(&receipt).commit().await?;
        receipt
    };
    "framework::ReceiptPool::commit": |s| { s.make().await?; } =>
        ReceiptPool::below(&s.zk, s.at())
            .commit(|| s.zk.transaction().set_data(s.at(), "1")).await?;
    "framework::ReceiptPool::apply": |s| { s.make().await?; } =>
        ReceiptPool::below(&s.zk, s.at()).apply(s.zk.transaction().set_data(s.at(), "1")).await?;
    "framework::Ids::next": |s| {
        let ids = Ids::below(&s.zk, ZPath::for_operation("ids", s.at())?);
    } => {
        drop(ids.next().await?);
        ids
    };
    "framework::Id::commit": |s| {
        let ids = Ids::below(&s.zk, ZPath::for_operation("ids", s.at())?);
        drop(ids.next().await?);
    } => {
        ids.next().await?.commit(|transaction| transaction.create(s.below("a"), "1")).await?;
        ids
    };
    "framework::Ids::flush": |s| {
        let ids = Ids::below(&s.zk, ZPath::for_operation("ids", s.at())?);
        ids.next().await?.commit(|transaction| transaction.create(s.below("a"), "1")).await?;
    } => {
        ids.flush().await?;
        ids
    };
    "framework::resolve": |s| {} => {
        certain::resolve(|| s.zk.create(s.at()), async || Ok(ResolvedOutcome::Unknown)).await?
    };
    "framework::Typed::get": |s| { s.make().await?; } =>
        s.zk.typed::<u8>().get(s.at()).await?;
    "framework::Typed::find": |s| {} => s.zk.typed::<u8>().find(s.at()).await?;
    "framework::Typed::watched": |s| { s.make().await?; } =>
        s.zk.typed::<u8>().watched(s.at()).await?;
    "framework::Typed::children": |s| {
        s.zk.create(s.below("a")).creating_parents().data("1").await?;
    } => s.zk.typed::<u8>().children(s.at()).await?;
    "framework::Typed::create": |s| {} => s.zk.typed::<u8>().create(s.at(), &1).await?;
    "framework::Typed::put": |s| {} => s.zk.typed::<u8>().put(s.at(), &1).await?;
    "framework::Typed::replace": |s| { s.make().await?; } =>
        s.zk.typed::<u8>().replace(s.at(), &1, 0).await?;
    "framework::Typed::modify": |s| { s.make().await?; } =>
        s.zk.typed::<u8>().modify(s.at(), |value| value + 1).await?;
    "framework::Typed::modify_from": |s| {
        s.make().await?;
        let node = s.zk.typed::<u8>().get(s.at()).await?;
    } => s.zk.typed::<u8>().modify_from(node, |value| value + 1).await?;
    "framework::ModelNode::create": |s| { s.make().await?; } => model(&s).create(&1).await?;
    "framework::ModelNode::put": |s| { s.make().await?; } => model(&s).put(&1).await?;
    "framework::ModelNode::get": |s| { modelled(&s.there()).await?; } => model(&s).get().await?;
    "framework::ModelNode::find": |s| { s.make().await?; } => model(&s).find().await?;
    "framework::ModelNode::exists": |s| { s.make().await?; } => model(&s).exists().await?;
    "framework::ModelNode::watched": |s| {
        modelled(&s.there()).await?;
    } => model(&s).watched().await?;
    "framework::ModelNode::replace": |s| {
        modelled(&s.there()).await?;
    } => model(&s).replace(&2, 0).await?;
    "framework::ModelNode::modify": |s| { modelled(&s.there()).await?; } =>
        model(&s).modify(|value| value + 1).await?;
    "framework::ModelNode::delete": |s| {
        modelled(&s.there()).await?;
    } => model(&s).delete().await?;
    "framework::ModelNode::delete_if": |s| {
        modelled(&s.there()).await?;
    } => model(&s).delete_if(0).await?;
    "framework::ModelParent::children": |s| { modelled(&s.there()).await?; } =>
        s.zk.model(MODEL).under(()).children().await?;
}
