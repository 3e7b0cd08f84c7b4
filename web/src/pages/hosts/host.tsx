import { Button, Skeleton, SimpleGrid, Stack, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Trash2 } from "lucide-react";
import { useState } from "react";
import { Link } from "wouter";
import { array, host } from "../../api/queries";
import type { SchemaHost as Host } from "../../api/schema";
import { moment, plural } from "../../format";
import { CopyText, Terminal } from "../../parts/copy";
import { Dot } from "../../parts/dot";
import { May } from "../../parts/may";
import { Page } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { esxi, linux, windows, type Step } from "./commands";
import { DeleteHost } from "./forms";
import { SeenVolumes } from "./seen";

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
          <May>
            <Button variant="default" leftSection={<Trash2 size={15} aria-hidden />} onClick={() => setDeleting(true)}>
              Forget
            </Button>
          </May>
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
  const action = (
    <Button component={Link} href="/volumes" variant="default">
      To the volumes
    </Button>
  );
  return <SeenVolumes by="host" connections={host.connections} empty={{ title: "It sees no volume", text: "Open a volume, or create one, and connect it to this host.", action }} />;
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
