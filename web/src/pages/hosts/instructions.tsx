import { Skeleton, Stack, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { array } from "../../api/queries";
import type { SchemaHost as Host } from "../../api/schema";
import { Terminal } from "../../parts/copy";
import { esxi, linux, proxmox, windows, type Step } from "./commands";

/** Commands to connect a host, by operating system. */
export function Instructions({ host }: { host: Host }) {
  const { data } = useQuery(array());
  if (!data) return <Skeleton height={300} />;
  const access = { portals: data.portals, target: data.target_iqn, chapUser: host.chap_user, mutualUser: host.mutual_user };
  return (
    <Tabs defaultValue="linux" keepMounted={false}>
      <Tabs.List mb="md">
        <Tabs.Tab value="linux">Linux</Tabs.Tab>
        <Tabs.Tab value="esxi">VMware ESXi</Tabs.Tab>
        <Tabs.Tab value="windows">Windows</Tabs.Tab>
        <Tabs.Tab value="proxmox">Proxmox VE</Tabs.Tab>
      </Tabs.List>
      <Tabs.Panel value="linux">
        <Steps steps={linux(access)} />
      </Tabs.Panel>
      <Tabs.Panel value="esxi">
        <Steps steps={esxi(access)} />
      </Tabs.Panel>
      <Tabs.Panel value="windows">
        <Steps steps={windows(access)} />
      </Tabs.Panel>
      <Tabs.Panel value="proxmox">
        <Steps steps={proxmox(access)} />
      </Tabs.Panel>
    </Tabs>
  );
}

function Steps({ steps }: { steps: Step[] }) {
  return (
    <Stack gap="md" component="ol" style={{ margin: 0, paddingInlineStart: 20 }}>
      {steps.map((step) => (
        <li key={step.title}>
          <Text size="sm" mb={6}>
            {step.title}
          </Text>
          <Terminal text={step.commands} label={`Copy: ${step.title}`} />
          {step.note && (
            <Text size="xs" className="quiet" mt={4}>
              {step.note}
            </Text>
          )}
        </li>
      ))}
    </Stack>
  );
}
