import { Progress, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Database } from "lucide-react";
import { volumes } from "../../api/queries";
import type { SchemaVolume as Volume } from "../../api/schema";
import { bytes, moment, percent, plural, seer } from "../../format";
import { RowLink } from "../../parts/row-link";
import type { Column } from "../../parts/table";
import { useOpened } from "../../parts/use-opened";
import { CreateVolume } from "./forms";
import { NounList } from "../../parts/noun-list";

const COLUMNS: Column<Volume>[] = [
  {
    name: "Name",
    key: (volume) => volume.name,
    cell: (volume) => <RowLink place="volumes" name={volume.name} />,
  },
  { name: "Size", key: (volume) => volume.size, cell: (volume) => bytes(volume.size), right: true },
  { name: "Mapped", key: (volume) => volume.mapped, cell: (volume) => bytes(volume.mapped), right: true },
  { name: "Mapped share", key: (volume) => volume.mapped / volume.size, cell: (volume) => <Filled volume={volume} />, wide: true },
  { name: "Connected to", key: (volume) => volume.connections.length, cell: (volume) => <SeenBy volume={volume} />, wide: true },
  { name: "Created", key: (volume) => volume.created, cell: (volume) => <span className="quiet">{moment(volume.created)}</span>, right: true, wide: true },
];

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
  const names = volume.connections.map(seer);
  if (names.length === 0) return <span className="quiet">none</span>;
  if (names.length > 2) return <span title={names.join(", ")}>{plural(names.length, volume.connections.some((it) => it.host_group) ? "connection" : "host")}</span>;
  return <Text size="sm">{names.join(", ")}</Text>;
}

export function VolumesPage() {
  const create = useOpened("new");
  return (
    <NounList
      title="Volumes"
      noun="volume"
      list={useQuery(volumes())}
      columns={COLUMNS}
      id={(volume) => volume.id}
      text={(volume) => `${volume.name} ${volume.naa} ${volume.connections.map(seer).join(" ")}`}
      create={{ label: "Create volume", onClick: create.open }}
      empty={{ icon: Database, title: "No volumes yet", text: "A volume is a disk for hosts. It is thin-provisioned: it takes space only for written data." }}
    >
      <CreateVolume opened={create.opened} onClose={create.close} />
    </NounList>
  );
}
