import { useQuery } from "@tanstack/react-query";
import { Camera } from "lucide-react";
import { snapshots } from "../../api/queries";
import { useOpened } from "../../parts/use-opened";
import { COLUMNS } from "./columns";
import { TakeSnapshot } from "./forms";
import { Timeline } from "./timeline";
import { NounList } from "../../parts/noun-list";

export function SnapshotsPage() {
  const list = useQuery(snapshots());
  const take = useOpened("new");
  return (
    <NounList
      title="Snapshots"
      noun="snapshot"
      list={list}
      columns={COLUMNS}
      id={(it) => it.id}
      text={(it) => `${it.name} ${it.source} ${it.set}`}
      create={{ label: "Take snapshot", icon: Camera, onClick: take.open }}
      empty={{ icon: Camera, title: "No snapshots yet", text: "A snapshot preserves the contents of a volume at one instant. It takes space only for data that is overwritten later." }}
      before={list.data && list.data.length > 0 && <Timeline snapshots={list.data} now={list.dataUpdatedAt} />}
    >
      <TakeSnapshot opened={take.opened} onClose={take.close} />
    </NounList>
  );
}
