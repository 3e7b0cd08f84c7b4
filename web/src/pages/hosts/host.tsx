import { Button, Skeleton, SimpleGrid, Stack, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Database, Trash2, Unlink } from "lucide-react";
import { useState } from "react";
import { Link } from "wouter";
import { array, host } from "../../api/queries";
import type { SchemaConnection as Connection, SchemaHost as Host } from "../../api/schema";
import { moment, plural, seer } from "../../format";
import { CopyText, Terminal } from "../../parts/copy";
import { Dot } from "../../parts/dot";
import { Empty } from "../../parts/empty";
import { Page } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { DataTable, type Column } from "../../parts/table";
import { DisconnectVolume } from "../volumes/forms";
import { esxi, linux, windows, type Step } from "./commands";
import { DeleteHost } from "./forms";

export function HostPage({ name }: { name: string }) {
  const { data, error } = useQuery(host(name));
  const [deleting, setDeleting] = useState(false);
  return (
    <Page
      title={name}
      above={{ label: "Hosts", path: "/hosts" }}
      beside={data && (data.sessions > 0 ? <Dot color="teal" label={plural(data.sessions, "session")} /> : <Dot color="gray" label="not logged in" />)}
      actions={
        data && (
          <Button variant="default" leftSection={<Trash2 size={15} aria-hidden />} onClick={() => setDeleting(true)}>
            Forget
          </Button>
        )
      }
    >
      <ProblemAlert error={error} />
      {!data && !error && <Skeleton height={180} />}
      {data && (
        <Stack gap="md">
          <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
            <Facts host={data} />
            <Seen host={data} />
          </SimpleGrid>
          <Instructions host={data} />
          <DeleteHost host={data} opened={deleting} onClose={() => setDeleting(false)} />
        </Stack>
      )}
    </Page>
  );
}

function Facts({ host }: { host: Host }) {
  return (
    <Panel title="Identity">
      <dl className="facts">
        <dt>Initiators</dt>
        <dd>
          {host.initiators.map((name) => (
            <div key={name}>
              {name} <CopyText text={name} label={`Copy ${name}`} />
            </div>
          ))}
        </dd>
        <dt>CHAP</dt>
        <dd>{host.chap_user ? `logs in as ${host.chap_user}` : "not asked for"}</dd>
        {host.mutual_user && (
          <>
            <dt>Mutual CHAP</dt>
            <dd>the array answers as {host.mutual_user}</dd>
          </>
        )}
        <dt>Added</dt>
        <dd className="number">{moment(host.created)}</dd>
      </dl>
    </Panel>
  );
}

function Seen({ host }: { host: Host }) {
  const [leaving, setLeaving] = useState<Connection>();
  const columns: Column<Connection>[] = [
    { name: "LUN", key: (it) => it.lun, cell: (it) => <span className="number">{it.lun}</span> },
    {
      name: "Volume",
      key: (it) => it.volume,
      cell: (it) => (
        <Link className="row-link" href={`/volumes/${encodeURIComponent(it.volume)}`}>
          {it.volume}
        </Link>
      ),
    },
    {
      name: "",
      cell: (it) =>
        it.host_group ? (
          <span className="quiet">by {seer(it)}</span>
        ) : (
          <Button variant="subtle" color="gray" size="compact-sm" leftSection={<Unlink size={14} aria-hidden />} onClick={() => setLeaving(it)}>
            Disconnect
          </Button>
        ),
      right: true,
    },
  ];
  return (
    <Panel title="Volumes" flush>
      <DataTable
        label="Volumes of the host"
        noun="volume"
        rows={host.connections}
        columns={columns}
        id={(it) => it.volume}
        pageSize={10}
        empty={
          <Empty
            icon={Database}
            title="It sees no volume"
            text="Open a volume, or create one, and connect it to this host."
            action={
              <Button component={Link} href="/volumes" variant="default">
                To the volumes
              </Button>
            }
          />
        }
      />
      {leaving !== undefined && <DisconnectVolume connection={leaving} onClose={() => setLeaving(undefined)} />}
    </Panel>
  );
}

function Instructions({ host }: { host: Host }) {
  const { data } = useQuery(array());
  if (!data) return <Skeleton height={300} />;
  const way = { portals: data.portals, target: data.target_iqn, chapUser: host.chap_user, mutualUser: host.mutual_user };
  return (
    <Panel title="What to type on the host">
      <Tabs defaultValue="linux" keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="linux">Linux</Tabs.Tab>
          <Tabs.Tab value="esxi">VMware ESXi</Tabs.Tab>
          <Tabs.Tab value="windows">Windows</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="linux">
          <Steps steps={linux(way)} />
        </Tabs.Panel>
        <Tabs.Panel value="esxi">
          <Steps steps={esxi(way)} />
        </Tabs.Panel>
        <Tabs.Panel value="windows">
          <Steps steps={windows(way)} />
        </Tabs.Panel>
      </Tabs>
    </Panel>
  );
}

function Steps({ steps }: { steps: Step[] }) {
  return (
    <Stack gap="md" component="ol" style={{ margin: 0, paddingInlineStart: 20 }}>
      {steps.map((step) => (
        <li key={step.says}>
          <Text size="sm" mb={6}>
            {step.says}
          </Text>
          <Terminal text={step.commands} label={`Copy: ${step.says}`} />
        </li>
      ))}
    </Stack>
  );
}
