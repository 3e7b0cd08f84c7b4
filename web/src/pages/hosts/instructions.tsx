import { Skeleton, Stack, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { array } from "../../api/queries";
import type { SchemaHost as Host } from "../../api/schema";
import { Terminal } from "../../parts/copy";
import { esxi, linux, windows, type Step } from "./commands";

/** What to type on a host, for each kind of system. */
export function Instructions({ host }: { host: Host }) {
  const { data } = useQuery(array());
  if (!data) return <Skeleton height={300} />;
  const way = { portals: data.portals, target: data.target_iqn, chapUser: host.chap_user, mutualUser: host.mutual_user };
  return (
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
