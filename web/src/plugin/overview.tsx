/** An array in the vSphere Client: state, performance, capacity, reduction, its datastores, and offloaded commands. */
import { SimpleGrid, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Database } from "lucide-react";
import { useState } from "react";
import type { Stretch } from "../api/performance";
import { array as arrayQuery } from "../api/queries";
import { bytes, percent } from "../format";
import { CapacityPanel } from "../pages/dashboard/capacity";
import { NowPanel } from "../pages/dashboard/now";
import { ReductionPanel } from "../pages/dashboard/reduction";
import { StateBanner } from "../pages/dashboard/state";
import { Offloads } from "../pages/performance/details";
import { OffloadCharts } from "../pages/performance/offload-charts";
import { Empty } from "../parts/empty";
import { Page } from "../parts/page";
import { Panel } from "../parts/panel";
import { ProblemAlert } from "../parts/problem";
import { DataTable, type Column } from "../parts/table";
import { usePlace } from "./place";
import { urnOf } from "./sdk";
import type { StoreRow } from "./server";

/** The shown range of offloaded commands: the last hour, or the range chosen by dragging. */
const HOUR: Stretch = { last: 3_600 };
/** Milliseconds between requests for the datastores; each request reads the inventory. */
const STORES_MS = 30_000;

export function OverviewView() {
  const { array } = usePlace();
  const { data, error } = useQuery(arrayQuery());
  return (
    <Page title={data?.name ?? array}>
      <Stack gap="md">
        <ProblemAlert error={error} />
        {!data && !error && <Skeleton height={180} />}
        {data && (
          <>
            <StateBanner status={data} />
            <NowPanel />
            <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
              <CapacityPanel space={data.space} />
              <ReductionPanel space={data.space} reduction={data.reduction} />
            </SimpleGrid>
            <Datastores />
            <OffloadPanels scope={{ kind: "array" }} />
          </>
        )}
      </Stack>
    </Page>
  );
}

export function OffloadPanels({ scope }: { scope: Parameters<typeof Offloads>[0]["scope"] }) {
  const [stretch, setStretch] = useState(HOUR);
  return (
    <>
      <Offloads scope={scope} stretch={stretch} />
      <OffloadCharts scope={scope} stretch={stretch} onZoom={(from, to) => setStretch({ from, to })} />
    </>
  );
}

function Datastores() {
  const { sdk, server, array } = usePlace();
  const { data, error } = useQuery({
    queryKey: ["plugin", "datastores", array],
    queryFn: async ({ signal }) => (await server.ask<{ items: StoreRow[] }>(`datastores?array=${encodeURIComponent(array)}`, undefined, signal)).items,
    refetchInterval: STORES_MS,
  });
  const columns: Column<StoreRow>[] = [
    {
      name: "Datastore",
      key: (it) => it.name,
      cell: (it) => (
        <button type="button" className="link" onClick={() => sdk.app.navigateTo({ targetViewId: "volume", objectId: urnOf({ type: "Datastore", id: it.id, vcenter: server.vcenter }) })}>
          {it.name}
        </button>
      ),
    },
    { name: "Volume", key: (it) => it.volume, cell: (it) => it.volume },
    { name: "Capacity", key: (it) => it.capacity, cell: (it) => bytes(it.capacity), right: true },
    { name: "Free", key: (it) => it.free, cell: (it) => `${bytes(it.free)} (${percent(it.free / it.capacity)})`, right: true },
    { name: "Mapped on the array", key: (it) => it.mapped, cell: (it) => bytes(it.mapped), right: true, wide: true },
    { name: "Virtual machines", key: (it) => it.machines.length, cell: (it) => <Text size="sm" lineClamp={2}>{it.machines.join(", ") || "–"}</Text>, wide: true },
  ];
  return (
    <Panel title="Datastores" flush>
      <ProblemAlert error={error} />
      {!error && (
        <DataTable
          label="Datastores"
          noun="datastore"
          rows={data}
          columns={columns}
          id={(it) => it.id}
          pageSize={20}
          empty={<Empty icon={Database} title="No datastores on this array" text="In the menu of a cluster, “Create datastore (Ashlar)” creates one on all of its hosts." />}
        />
      )}
    </Panel>
  );
}
