import { Button, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Camera } from "lucide-react";
import { snapshots } from "../../api/queries";
import { Empty } from "../../parts/empty";
import { May } from "../../parts/may";
import { Page } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { DataTable } from "../../parts/table";
import { useOpened } from "../../parts/use-opened";
import { COLUMNS } from "./columns";
import { TakeSnapshot } from "./forms";
import { Timeline } from "./timeline";

export function SnapshotsPage() {
  const { data, error, dataUpdatedAt } = useQuery(snapshots());
  const take = useOpened("new");
  const button = (
    <May>
      <Button leftSection={<Camera size={16} aria-hidden />} onClick={take.open}>
        Take snapshot
      </Button>
    </May>
  );
  return (
    <Page title="Snapshots" actions={data?.length ? button : undefined}>
      <Stack gap="md">
        {data && data.length > 0 && <Timeline snapshots={data} now={dataUpdatedAt} />}
        {data || !error ? (
          <Panel flush>
            <DataTable
              label="Snapshots"
              noun="snapshot"
              rows={data}
              columns={COLUMNS}
              id={(it) => it.id}
              text={(it) => `${it.name} ${it.source} ${it.set}`}
              empty={
                <Empty
                  icon={Camera}
                  title="No snapshots yet"
                  text="A snapshot preserves the contents of a volume at one instant. It takes space only for data that is overwritten later."
                  action={button}
                />
              }
            />
          </Panel>
        ) : (
          <ProblemAlert error={error} />
        )}
      </Stack>
      <TakeSnapshot opened={take.opened} onClose={take.close} />
    </Page>
  );
}
