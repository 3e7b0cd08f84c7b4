import { Progress, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Database } from "lucide-react";
import { volumes } from "../../api/queries";
import { useMay } from "../../api/session";
import type { SchemaVolume as Volume } from "../../api/schema";
import { accessorName, bytes, count, latency, moment, percent, plural, ratio } from "../../format";
import { RowLink } from "../../parts/row-link";
import type { Column, Filter } from "../../parts/table";
import { useOpened } from "../../parts/use-opened";
import { CreateVolume } from "./forms";
import { SeveralVolumes } from "./several";
import { NounList } from "../../parts/noun-list";

const none = <span className="quiet">–</span>;

const COLUMNS: Column<Volume>[] = [
  {
    name: "Name",
    key: (volume) => volume.name,
    cell: (volume) => <RowLink place="volumes" name={volume.name} />,
  },
  { name: "Size", key: (volume) => volume.size, cell: (volume) => bytes(volume.size), right: true },
  { name: "Mapped", key: (volume) => volume.mapped, cell: (volume) => bytes(volume.mapped), right: true },
  { name: "Mapped share", key: (volume) => volume.mapped / volume.size, cell: (volume) => <Filled volume={volume} />, wide: "xl", optional: true },
  { name: "Reduction", key: (volume) => volume.reduction ?? 0, cell: (volume) => (volume.reduction == null ? none : ratio(volume.reduction)), right: true, wide: "xl" },
  { name: "IOPS", key: (volume) => volume.performance.iops, cell: ({ performance: { iops } }) => (iops > 0 ? count(iops) : none), right: true, wide: true },
  { name: "Throughput", key: (volume) => volume.performance.bytes_per_second, cell: ({ performance: { bytes_per_second: rate } }) => (rate > 0 ? `${bytes(rate)}/s` : none), right: true, wide: "xl" },
  { name: "Latency", key: (volume) => volume.performance.latency_us ?? 0, cell: ({ performance: { latency_us } }) => (latency_us == null ? none : latency(latency_us)), right: true, wide: "xl" },
  { name: "Group", key: (volume) => volume.group ?? "", cell: ({ group }) => (group ? <RowLink place="groups" name={group} /> : none), wide: true },
  { name: "Snapshots", key: (volume) => volume.snapshots, cell: (volume) => (volume.snapshots > 0 ? count(volume.snapshots) : none), right: true, wide: "xl" },
  { name: "Connected to", key: (volume) => volume.connections.length, cell: (volume) => <SeenBy volume={volume} />, wide: true },
  { name: "QoS", key: (volume) => volume.limits.iops ?? 0, cell: (volume) => <Limit volume={volume} />, wide: "xl", optional: true },
  { name: "Created", key: (volume) => volume.created, cell: (volume) => <span className="quiet">{moment(volume.created)}</span>, right: true, wide: "xl", optional: true },
];

const FILTERS: Filter<Volume>[] = [
  { label: "Group", of: (volume) => (volume.group ? [volume.group] : []) },
  { label: "Host", of: (volume) => volume.connections.map(accessorName) },
];

/** Milliseconds between two looks at the list, whose figures of performance are of the last seconds. */
const REFRESH_MS = 5_000;

function Limit({ volume: { limits } }: { volume: Volume }) {
  const texts = [limits.iops != null && `${count(limits.iops)} IOPS`, limits.bandwidth != null && `${bytes(limits.bandwidth)}/s`].filter(Boolean);
  return texts.length > 0 ? <span className="number">{texts.join(", ")}</span> : <span className="quiet">unlimited</span>;
}

function Filled({ volume }: { volume: Volume }) {
  const share = volume.mapped / volume.size;
  return (
    <div style={{ display: "flex", alignItems: "center", gap: 10 }}>
      <Progress value={share * 100} w={90} size={6} color="slate" aria-hidden />
      <span className="number quiet">{percent(share)}</span>
    </div>
  );
}

function SeenBy({ volume }: { volume: Volume }) {
  const names = volume.connections.map(accessorName);
  if (names.length === 0) return <span className="quiet">none</span>;
  if (names.length > 2) return <span title={names.join(", ")}>{plural(names.length, volume.connections.some((it) => it.host_group) ? "connection" : "host")}</span>;
  return <Text size="sm">{names.join(", ")}</Text>;
}

export function VolumesPage() {
  const create = useOpened("new");
  const may = useMay("operator");
  return (
    <NounList
      title="Volumes"
      noun="volume"
      list={useQuery({ ...volumes(), refetchInterval: REFRESH_MS })}
      columns={COLUMNS}
      id={(volume) => volume.name}
      filters={FILTERS}
      chooser
      selection={{ may, actions: (chosen, clear) => <SeveralVolumes volumes={chosen} clear={clear} /> }}
      text={(volume) => `${volume.name} ${volume.naa} ${volume.connections.map(accessorName).join(" ")}`}
      create={{ label: "Create volume", onClick: create.open }}
      empty={{ icon: Database, title: "No volumes yet", text: "A volume is a disk for hosts. It is thin-provisioned: it takes space only for written data." }}
    >
      <CreateVolume opened={create.opened} onClose={create.close} />
    </NounList>
  );
}
