import { SimpleGrid, Skeleton, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { array } from "../../api/queries";
import type { SchemaArray as ArrayStatus } from "../../api/schema";
import { count, duration } from "../../format";
import { CopyText } from "../../parts/copy";
import { Page } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { CapacityPanel } from "./capacity";
import { RecentEvents } from "./events";
import { FirstSteps } from "./first-steps";
import { NowPanel } from "./now";
import { ReductionPanel } from "./reduction";
import { ReplicationPanel } from "./replication";
import { StateBanner } from "./state";

export function DashboardPage() {
  const { data, error } = useQuery(array());
  return (
    <Page title="Dashboard">
      <Stack gap="md">
        <ProblemAlert error={error} />
        {data && <StateBanner status={data} />}
        {data && data.hosts === 0 && <FirstSteps />}
        <NowPanel />
        <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
          {data ? <CapacityPanel space={data.space} /> : <Skeleton height={250} />}
          {data ? <ReductionPanel space={data.space} reduction={data.reduction} /> : <Skeleton height={250} />}
        </SimpleGrid>
        <ReplicationPanel />
        <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
          <RecentEvents />
          {data && <About status={data} />}
        </SimpleGrid>
      </Stack>
    </Page>
  );
}

function About({ status }: { status: ArrayStatus }) {
  return (
    <Panel title="Array">
      <dl className="facts">
        <dt>Volumes</dt>
        <dd className="number">{count(status.volumes)}</dd>
        <dt>Hosts</dt>
        <dd className="number">{count(status.hosts)}</dd>
        <dt>iSCSI sessions</dt>
        <dd className="number">{count(status.sessions)}</dd>
        <dt>Serving for</dt>
        <dd className="number">{duration(status.uptime_seconds)}</dd>
        <dt>Target</dt>
        <dd>
          {status.target_iqn} <CopyText text={status.target_iqn} label="Copy the target name" />
        </dd>
        <dt>Portals</dt>
        <dd className="number">{status.portals.join(", ")}</dd>
        <dt>Serial number</dt>
        <dd>{status.serial}</dd>
        <dt>Version</dt>
        <dd className="number">{status.version}</dd>
      </dl>
    </Panel>
  );
}
