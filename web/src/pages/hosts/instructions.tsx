import { Alert, SegmentedControl, Skeleton, Stack, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { array, portals } from "../../api/queries";
import type { SchemaHost as Host } from "../../api/schema";
import { Terminal } from "../../parts/copy";
import { ProblemAlert } from "../../parts/problem";
import { PROTOCOLS, protocolsOf, stepsFor, SYSTEMS, systemOf, type Protocol, type System } from "./commands";
import type { Step } from "./steps";

/**
 * Commands to connect a host, by protocol and operating system. The protocol and system of the host's names come first.
 */
export function Instructions({ host }: { host: Host }) {
  const about = useQuery(array());
  const known = useQuery(portals());
  const protocols = protocolsOf(host);
  const [chosen, setChosen] = useState<Protocol>();
  const protocol = chosen && protocols.includes(chosen) ? chosen : protocols[0];
  if (about.error ?? known.error) return <ProblemAlert error={about.error ?? known.error} />;
  if (!about.data || !known.data) return <Skeleton height={300} />;
  if (!protocol) return <Text size="sm" className="quiet">The host has no name of any protocol.</Text>;
  const { data: ports } = known;
  const { data: parts } = about;
  return (
    <>
      {protocols.length > 1 && (
        <SegmentedControl mb="md" aria-label="Protocol" value={protocol} onChange={setChosen} data={protocols.map((value) => ({ value, label: PROTOCOLS[value] }))} />
      )}
      <Tabs key={protocol} defaultValue={systemOf(host)} keepMounted={false}>
        <Tabs.List mb="md">
          {Object.entries(SYSTEMS).map(([system, label]) => (
            <Tabs.Tab key={system} value={system}>
              {label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {(Object.keys(SYSTEMS) as System[]).map((system) => (
          <Tabs.Panel key={system} value={system}>
            <Steps steps={stepsFor(protocol, system, host, parts, ports)} lacks={`${PROTOCOLS[protocol]}${protocol === "nvme-tcp" && host.tls ? " with TLS" : ""}`} />
          </Tabs.Panel>
        ))}
      </Tabs>
    </>
  );
}

function Steps({ steps, lacks }: { steps: Step[]; lacks: string }) {
  if (steps.length === 0) {
    return (
      <Alert color="yellow" title={`No portal for ${lacks}`}>
        The host can't connect before the array has one: add it in the settings, under Portals.
      </Alert>
    );
  }
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
