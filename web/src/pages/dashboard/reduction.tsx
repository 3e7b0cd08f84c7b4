import { Group, Stack, Text, Tooltip } from "@mantine/core";
import type { SchemaReduction as Reduction, SchemaSpace as Space } from "../../api/schema";
import { bytes, ratio } from "../../format";
import { Panel } from "../../parts/panel";

/** The steps from provisioned to physical space, each with its saving. The API computes the ratios. */
export function ReductionPanel({ space, reduction }: { space: Space; reduction: Reduction }) {
  const provisioned = space.provisioned + space.snapshot;
  const steps = [
    { name: "Provisioned", value: provisioned, says: "volumes, and data of snapshots", saved: null },
    { name: "Logical", value: space.logical, says: "data, without zeros", saved: { by: "thin provisioning", ratio: reduction.thin_provisioning } },
    { name: "Unique", value: space.unique, says: "after deduplication", saved: { by: "deduplication", ratio: reduction.deduplication } },
    { name: "Stored", value: space.physical, says: "physical space", saved: { by: "compression", ratio: reduction.compression } },
  ];
  return (
    <Panel
      title="Reduction"
      actions={
        <Tooltip label="Logical to physical: deduplication and compression, without thin provisioning." multiline w={260}>
          <Text size="sm" tabIndex={0}>
            <Text span fw={600} fz="lg" className="number">
              {ratio(reduction.data)}
            </Text>{" "}
            <span className="quiet">data reduction</span>
          </Text>
        </Tooltip>
      }
    >
      <Stack gap={12}>
        {steps.map((step) => (
          <Step key={step.name} {...step} largest={provisioned} />
        ))}
      </Stack>
    </Panel>
  );
}

type StepProps = { name: string; value: number; says: string; saved: { by: string; ratio: number | null | undefined } | null; largest: number };

function Step({ name, value, says, saved, largest }: StepProps) {
  const share = largest > 0 ? Math.min(1, value / largest) : 0;
  return (
    <div>
      <Group justify="space-between" wrap="nowrap" gap="xs" mb={4}>
        <Text size="sm" truncate>
          {name}{" "}
          <Text span size="xs" className="quiet wide-only">
            {says}
          </Text>
        </Text>
        <Group gap="sm" wrap="nowrap">
          {saved?.ratio != null && (
            <Text size="xs" className="quiet number" style={{ whiteSpace: "nowrap" }}>
              {saved.by} {ratio(saved.ratio)}
            </Text>
          )}
          <Text size="sm" fw={500} className="number" style={{ whiteSpace: "nowrap", minWidth: 68, textAlign: "right" }}>
            {bytes(value)}
          </Text>
        </Group>
      </Group>
      <div style={{ height: 8, borderRadius: 4, background: "var(--ashlar-line)" }}>
        <div style={{ height: 8, borderRadius: 4, minWidth: value > 0 ? 3 : 0, width: `${share * 100}%`, background: "var(--ashlar-data)", transition: "width 300ms" }} />
      </div>
    </div>
  );
}
