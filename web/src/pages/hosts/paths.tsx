/** The paths of a host: sessions on each portal, and the balance of its I/O over them. */
import { Alert, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Cable, TriangleAlert } from "lucide-react";
import { paths } from "../../api/performance";
import { portals as targetPortals } from "../../api/queries";
import type { SchemaHost as Host, SchemaPath as Path, SchemaTargetPortal as TargetPortal } from "../../api/schema";
import { bytes, count, latency, percent, plural } from "../../format";
import { Dot } from "../../parts/dot";
import { Empty } from "../../parts/empty";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { DataTable, type Column } from "../../parts/table";
import { usable } from "./commands";

/** Imbalance from which the page calls the I/O uneven: the threshold of the array's alert. */
const UNEVEN = 0.5;

/** A path, or a portal without a path of the host. */
export type Row = { portal: number; address: string; path?: Path };

type Portal = Pick<TargetPortal, "number" | "protocol" | "address">;

/**
 * Every portal that the host can use, with its paths on it; a portal without a path is a row of its own. A removed
 * portal has only a number.
 */
export function rowsOf(found: readonly Path[], portals: readonly Portal[]): Row[] {
  const addresses = new Map(portals.map((it) => [it.number, it.address]));
  const numbers = new Set([...addresses.keys(), ...found.map((it) => it.portal)]);
  return [...numbers]
    .sort((a, b) => a - b)
    .flatMap((portal): Row[] => {
      const address = addresses.get(portal) ?? `portal ${portal}`;
      const on = found.filter((it) => it.portal === portal);
      return on.length > 0 ? on.map((path) => ({ portal, address, path })) : [{ portal, address }];
    });
}

/** The balance of the I/O, as a sentence. */
export function balanceText(live: number, imbalance: number | null | undefined): string | null {
  if (live < 2 || imbalance == null) return null;
  return imbalance < UNEVEN ? `Balanced: the least busy path does ${percent(1 - imbalance)} of the busiest.` : `Uneven: the least busy path does only ${percent(1 - imbalance)} of the busiest. Check that the host uses all paths, round robin.`;
}

export function PathsPanel({ host }: { host: Host }) {
  const { data: known, error: unknown } = useQuery(targetPortals());
  const { data, error } = useQuery(paths(host.name));
  const portals = usable(known ?? [], host);
  const live = new Set(data?.items.filter((it) => it.sessions > 0).map((it) => it.portal));
  const used = host.sessions + host.controllers > 0;
  const missing = portals.filter((it) => !live.has(it.number)).map((it) => it.address);
  const balance = balanceText(data?.hosts[0]?.paths ?? 0, data?.hosts[0]?.imbalance);
  const several = host.initiators.length + host.nqns.length + host.wwpns.length > 1;
  return (
    <Panel title="Paths" flush>
      <ProblemAlert error={error ?? unknown} />
      {data && used && missing.length > 0 && (
        <Alert color="orange" icon={<TriangleAlert size={18} />} title={live.size === 1 ? "Single path" : "Missing paths"} mx="md" mb="sm">
          {host.name} has no session on {missing.join(", ")}. Log in there, too: the more paths there are, the more cables, cards and switches may fail.
        </Alert>
      )}
      <DataTable
        label="Paths"
        noun="path"
        rows={data && known ? (used ? rowsOf(data.items, portals) : []) : undefined}
        columns={columnsFor(several)}
        id={(it) => `${it.portal} ${it.path?.initiator ?? ""}`}
        pageSize={20}
        empty={<Empty icon={Cable} title="Not logged in" text={`${host.name} has no session. The commands below log it in by every portal; refused log-ins are shown with their reason.`} />}
      />
      {balance && used && (
        <Text size="sm" className="quiet" px="md" py="sm">
          {balance}
        </Text>
      )}
    </Panel>
  );
}

function columnsFor(several: boolean): Column<Row>[] {
  const none = <span className="quiet">–</span>;
  const columns: Column<Row>[] = [
    { name: "Portal", key: (it) => it.portal, cell: (it) => <span className="number">{it.address}</span> },
    { name: "Sessions", key: (it) => it.path?.sessions ?? 0, cell: ({ path }) => (path && path.sessions > 0 ? <Dot color="teal" label={plural(path.sessions, "session")} /> : <Dot color="gray" label="no session" />) },
    { name: "IOPS", key: (it) => it.path?.total.iops ?? 0, cell: ({ path }) => (path ? count(path.total.iops) : none), right: true },
    { name: "Throughput", key: (it) => it.path?.total.bytes_per_second ?? 0, cell: ({ path }) => (path ? `${bytes(path.total.bytes_per_second)}/s` : none), right: true, wide: true },
    { name: "Latency", key: (it) => it.path?.total.latency_us.mean ?? 0, cell: ({ path }) => (path?.total.latency_us.mean == null ? none : latency(path.total.latency_us.mean)), right: true, wide: true },
    { name: "Share", key: (it) => it.path?.share ?? 0, cell: ({ path }) => (path?.share == null ? none : percent(path.share)), right: true },
  ];
  if (several) columns.splice(2, 0, { name: "Initiator", key: (it) => it.path?.initiator ?? "", cell: (it) => (it.path ? <span style={{ overflowWrap: "anywhere" }}>{it.path.initiator}</span> : none), wide: true });
  return columns;
}
