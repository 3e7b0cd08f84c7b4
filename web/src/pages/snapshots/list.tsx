import { useQuery } from "@tanstack/react-query";
import { Camera } from "lucide-react";
import { snapshots } from "../../api/queries";
import type { SchemaSnapshot as Snapshot } from "../../api/schema";
import { useMay } from "../../api/session";
import { LABEL_FILTER } from "../../parts/labels";
import type { Filter } from "../../parts/table";
import { useOpened } from "../../parts/use-opened";
import { COLUMNS } from "./columns";
import { TakeSnapshot } from "./forms";
import { SeveralSnapshots } from "./several";
import { Timeline } from "./timeline";
import { NounList } from "../../parts/noun-list";

const FILTERS: Filter<Snapshot>[] = [
  { label: "Volume", of: (it) => (it.source ? [it.source] : []) },
  { label: "Schedule", of: (it) => (it.schedule ? [it.schedule] : []) },
  LABEL_FILTER,
];

export function SnapshotsPage() {
  const may = useMay("operator");
  const list = useQuery(snapshots());
  const take = useOpened("new");
  return (
    <NounList
      title="Snapshots"
      noun="snapshot"
      list={list}
      columns={COLUMNS}
      id={(it) => it.name}
      filters={FILTERS}
      chooser
      selection={{ may, actions: (chosen, clear) => <SeveralSnapshots snapshots={chosen} clear={clear} /> }}
      text={(it) => `${it.name} ${it.source} ${it.set}`}
      create={{ label: "Take snapshot", icon: Camera, onClick: take.open }}
      empty={{ icon: Camera, title: "No snapshots yet", text: "A snapshot preserves the contents of a volume at one instant. It takes space only for data that is overwritten later." }}
      before={list.data && list.data.length > 0 && <Timeline snapshots={list.data} now={list.dataUpdatedAt} />}
    >
      <TakeSnapshot opened={take.opened} onClose={take.close} />
    </NounList>
  );
}
