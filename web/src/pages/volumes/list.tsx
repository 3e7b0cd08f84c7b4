import { Progress, Text } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { Database } from "lucide-react";
import { useState } from "react";
import { groups, hostGroups, hosts, quoted, volumeLabels, volumesPage, type Part } from "../../api/queries";
import { useMay } from "../../api/session";
import type { SchemaVolume as Volume } from "../../api/schema";
import { accessorName, bytes, count, latency, moment, percent, plural, ratio } from "../../format";
import { LABEL_FILTER, labelChoices } from "../../parts/labels";
import { RowLink } from "../../parts/row-link";
import { firstShown, PAGE_ROWS, type Column, type Filter, type Shown } from "../../parts/table";
import { useOpened } from "../../parts/use-opened";
import { CreateVolume } from "./forms";
import { SeveralVolumes } from "./several";
import { NounList } from "../../parts/noun-list";

const none = <span className="quiet">–</span>;

const COLUMNS: Column<Volume>[] = [
  {
    name: "Name",
    sort: "name",
    cell: (volume) => <RowLink place="volumes" name={volume.name} />,
  },
  { name: "Size", sort: "size", cell: (volume) => bytes(volume.size), right: true },
  { name: "Mapped", sort: "mapped", cell: (volume) => bytes(volume.mapped), right: true },
  { name: "Mapped share", cell: (volume) => <Filled volume={volume} />, wide: "xl", optional: true },
  { name: "Data to own space", sort: "reduction", cell: (volume) => (volume.reduction == null ? none : ratio(volume.reduction)), right: true, wide: "xl" },
  { name: "IOPS", sort: "performance.iops", cell: ({ performance: { iops } }) => (iops > 0 ? count(iops) : none), right: true, wide: true },
  { name: "Throughput", sort: "performance.bytes_per_second", cell: ({ performance: { bytes_per_second: rate } }) => (rate > 0 ? `${bytes(rate)}/s` : none), right: true, wide: "xl" },
  { name: "Latency", sort: "performance.latency_us", cell: ({ performance: { latency_us } }) => (latency_us == null ? none : latency(latency_us)), right: true, wide: "xl" },
  { name: "Group", sort: "group", cell: ({ group }) => (group ? <RowLink place="groups" name={group} /> : none), wide: true },
  { name: "Snapshots", sort: "snapshots", cell: (volume) => (volume.snapshots > 0 ? count(volume.snapshots) : none), right: true, wide: "xl" },
  { name: "Connected to", cell: (volume) => <SeenBy volume={volume} />, wide: true },
  { name: "QoS", sort: "limits.iops", cell: (volume) => <Limit volume={volume} />, wide: "xl", optional: true },
  { name: "Created", sort: "created", cell: (volume) => <span className="quiet">{moment(volume.created)}</span>, right: true, wide: "xl", optional: true },
];

/** The fields of the filters. */
const FILTERED: Record<string, string> = { Group: "group", Host: "connections.host", "Host group": "connections.host_group" };

/** The request for a page of volumes. */
export function partOf({ words, chosen, column, down, page }: Shown): Part {
  const field = COLUMNS.find(({ name }) => name === column)?.sort ?? "name";
  const sort = down ? `-${field}` : field;
  const label = chosen[LABEL_FILTER.label]?.replace(/[\\,]/g, "\\$&");
  const filter = Object.entries(chosen)
    .filter(([of, value]) => value && of !== LABEL_FILTER.label)
    .map(([label, value]) => `${FILTERED[label] ?? label}=${quoted(value)}`)
    .join(",");
  return { limit: PAGE_ROWS, offset: (page - 1) * PAGE_ROWS, sort: field === "name" ? sort : `${sort},name`, ...(filter && { filter }), ...(label && { label }), ...(words.trim() && { search: words.trim() }) };
}

/** The filters; each fetches its choices when it opens. */
function useFilters(): Filter<Volume>[] {
  const [opened, setOpened] = useState<Record<string, boolean>>({});
  const names = (list: { name: string }[] | undefined) => list?.map(({ name }) => name) ?? [];
  const choices: Record<string, string[]> = {
    Group: names(useQuery({ ...groups(), enabled: opened["Group"] ?? false }).data),
    Host: names(useQuery({ ...hosts(), enabled: opened["Host"] ?? false }).data),
    "Host group": names(useQuery({ ...hostGroups(), enabled: opened["Host group"] ?? false }).data),
    [LABEL_FILTER.label]: [...new Set(useQuery({ ...volumeLabels(), enabled: opened[LABEL_FILTER.label] ?? false }).data?.flatMap(labelChoices))].sort(),
  };
  return Object.entries(choices).map(([label, choices]) => ({ label, of: () => [], choices, onOpen: () => setOpened((now) => ({ ...now, [label]: true })) }));
}

/**
 * Milliseconds between two requests for a page, for its performance figures. The event stream reports other changes.
 */
const REFRESH_MS = 5_000;
/** Milliseconds from the last key of a search to the request. */
const TYPED_MS = 200;

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
  return <Text size="sm" className="cut" title={names.join(", ")}>{names.join(", ")}</Text>;
}

export function VolumesPage() {
  const create = useOpened("new");
  const may = useMay("operator");
  const filters = useFilters();
  const [shown, setShown] = useState(() => firstShown(COLUMNS));
  const [words] = useDebouncedValue(shown.words, TYPED_MS);
  const { data, error, isPlaceholderData } = useQuery({ ...volumesPage(partOf({ ...shown, words })), refetchInterval: REFRESH_MS });
  return (
    <NounList
      title="Volumes"
      noun="volume"
      list={{ data: data?.items, error }}
      remote={{ total: data?.total ?? 0, shown, pending: isPlaceholderData || words !== shown.words, onShow: setShown }}
      columns={COLUMNS}
      id={(volume) => volume.name}
      filters={filters}
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
