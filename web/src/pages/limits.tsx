/** QoS limits of a volume or a group, and the reduction of its data. */
import { Button, NumberInput, Select, Text } from "@mantine/core";
import { useForm } from "@mantine/form";
import { SlidersHorizontal } from "lucide-react";
import { useState } from "react";
import { answer, api } from "../api/client";
import { useChange } from "../api/queries";
import type { SchemaCompression as Compression, SchemaLimits as Limits, SchemaPolicy as Policy, SchemaPolicyInForce as InForce } from "../api/schema";
import { bytes, count, exactBytes, parseBytes } from "../format";
import { FormModal } from "../parts/form";
import { May } from "../parts/may";
import { Panel } from "../parts/panel";
import { SizeInput } from "../parts/size-input";

type Thing = { name: string; limits: Limits; policy: Policy; policy_in_force?: InForce };
type Props = { kind: "volume" | "group"; thing: Thing };

const COMPRESSIONS: Record<Compression, string> = { off: "off", fast: "fast", high: "high", adaptive: "adaptive" };

export function LimitsPanel({ kind, thing }: Props) {
  const [opened, setOpened] = useState(false);
  const { limits, policy, policy_in_force: force } = thing;
  const inherited = kind === "volume" ? "by the group or the array" : "by the array";
  const dedup = force?.dedup ?? policy.dedup;
  const compression = force?.compression ?? policy.compression;
  const inheritedNote = (own: unknown) => (own == null ? <span className="quiet"> ({inherited})</span> : null);
  return (
    <Panel
      title="QoS limits and data reduction"
      actions={
        <May>
          <Button variant="default" size="compact-sm" leftSection={<SlidersHorizontal size={14} aria-hidden />} onClick={() => setOpened(true)}>
            Set
          </Button>
        </May>
      }
    >
      <dl className="facts">
        <dt>IOPS</dt>
        <dd className="number">{limits.iops == null ? "not limited" : `${count(limits.iops)} at most`}</dd>
        <dt>Throughput</dt>
        <dd className="number">{limits.bandwidth == null ? "not limited" : `${bytes(limits.bandwidth)}/s at most`}</dd>
        <dt>Deduplication</dt>
        <dd>
          {dedup == null ? "not set" : dedup ? "on" : "off"}
          {inheritedNote(policy.dedup)}
        </dd>
        <dt>Compression</dt>
        <dd>
          {compression == null ? "not set" : COMPRESSIONS[compression]}
          {inheritedNote(policy.compression)}
        </dd>
      </dl>
      <SetLimits key={JSON.stringify([limits, policy])} kind={kind} thing={thing} opened={opened} onClose={() => setOpened(false)} />
    </Panel>
  );
}

function SetLimits({ kind, thing, opened, onClose }: Props & { opened: boolean; onClose: () => void }) {
  const { name, limits, policy } = thing;
  const form = useForm<{ iops: number | string; bandwidth: string; dedup: string; compression: string }>({
    initialValues: {
      iops: limits.iops ?? "",
      bandwidth: limits.bandwidth == null ? "" : exactBytes(limits.bandwidth),
      dedup: policy.dedup == null ? "" : policy.dedup ? "on" : "off",
      compression: policy.compression ?? "",
    },
    validate: { bandwidth: (text) => (text.trim() !== "" && parseBytes(text) === undefined ? "Write a number with a unit, such as 200 MiB, or nothing." : null) },
  });
  const save = useChange({
    run: async ({ iops, bandwidth, dedup, compression }: typeof form.values) => {
      const body = {
        limits: { iops: iops === "" ? null : Number(iops), bandwidth: parseBytes(bandwidth) ?? null },
        policy: { dedup: dedup === "" ? null : dedup === "on", compression: compression === "" ? null : (compression as Compression) },
      };
      const params = { path: { name } };
      await (kind === "volume" ? answer(api.PATCH("/api/v1/volumes/{name}", { params, body })) : answer(api.PATCH("/api/v1/groups/{name}", { params, body })));
    },
    done: () => `QoS limits and data reduction of ${name} are saved.`,
    then: onClose,
  });
  const inherit = kind === "volume" ? "Inherit from group or array" : "Inherit from array";
  return (
    <FormModal opened={opened} onClose={onClose} title={`QoS limits and data reduction of ${name}`} verb="Save" busy={save.isPending} error={save.error} onSubmit={form.onSubmit((values) => save.mutate(values))}>
      <NumberInput label="IOPS limit" description="Empty: unlimited." min={1} allowDecimal={false} allowNegative={false} thousandSeparator="," data-autofocus {...form.getInputProps("iops")} />
      <SizeInput label="Bandwidth limit per second" required={false} description="Such as 200 MiB. Empty: unlimited." {...form.getInputProps("bandwidth")} />
      <Select label="Deduplication" data={[{ value: "", label: inherit }, { value: "on", label: "On" }, { value: "off", label: "Off" }]} allowDeselect={false} {...form.getInputProps("dedup")} />
      <Select
        label="Compression"
        data={[
          { value: "", label: inherit },
          { value: "adaptive", label: "Adaptive" },
          { value: "fast", label: "Fast" },
          { value: "high", label: "High" },
          { value: "off", label: "Off" },
        ]}
        allowDeselect={false}
        {...form.getInputProps("compression")}
      />
      <Text size="xs" className="quiet">
        Data reduction settings apply to new writes.
      </Text>
    </FormModal>
  );
}
