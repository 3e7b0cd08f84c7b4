//! Parts of long lists.

use crate::rig::{Rig, ok};
use array::{Caller, CreateVolume, LabelSelector, LabelsChange, ListPage, ListVolumes};

#[tokio::test]
async fn a_page_of_volumes_is_a_part_of_the_list_in_order_of_names() {
    let rig = Rig::new();
    let up = rig.up().await;
    for (name, label) in [("c", "web"), ("a", "db"), ("d", "web"), ("b", "web")] {
        let labels = LabelsChange::setting([("app".into(), label.into())].into());
        ok(
            &up,
            CreateVolume {
                name: name.into(),
                bytes: 1 << 20,
                block_bytes: 512,
                labels,
                ..CreateVolume::default()
            },
        )
        .await;
    }
    let page = |page: ListPage| {
        let found = up.array.page(&Caller::array(), &ListVolumes, &page).unwrap();
        (found.items.into_iter().map(|it| it.name).collect::<Vec<_>>().join(""), found.total)
    };
    let web = || LabelSelector(vec![("app".into(), Some("web".into()))]);
    for (wanted, expected) in [
        (ListPage::default(), ("abcd", 4)),
        (ListPage { take: Some(2), ..ListPage::default() }, ("ab", 4)),
        (ListPage { skip: 1, take: Some(2), ..ListPage::default() }, ("bc", 4)),
        (ListPage { reverse: true, skip: 1, take: Some(2), ..ListPage::default() }, ("cb", 4)),
        (ListPage { skip: 9, ..ListPage::default() }, ("", 4)),
        (ListPage { selector: web(), skip: 1, take: Some(1), ..ListPage::default() }, ("c", 3)),
        (ListPage { selector: web(), reverse: true, ..ListPage::default() }, ("dcb", 3)),
    ] {
        let shown = format!("{wanted:?}");
        assert_eq!(page(wanted), (expected.0.to_owned(), expected.1), "{shown}");
    }
}
