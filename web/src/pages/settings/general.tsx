import { Button, Group, NumberInput, Select, SimpleGrid, Skeleton, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { answer, api } from "../../api/client";
import { array, settings, useChange } from "../../api/queries";
import type { SchemaSettings as Settings } from "../../api/schema";
import { useMay } from "../../api/session";
import { CopyText } from "../../parts/copy";
import { May } from "../../parts/may";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { nameError } from "../../parts/size-input";
import { TimeZoneInput } from "../../parts/time-zone";
import { ENCRYPTION } from "./encryption";

/** The array's name, its general settings, and its target names. */
export function GeneralSettings() {
  const { data, error } = useQuery(settings());
  return (
    <>
      <ProblemAlert error={error} />
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
        {data ? <General key={JSON.stringify(data)} settings={data} /> : !error && <Skeleton height={220} />}
        <Portals />
      </SimpleGrid>
    </>
  );
}

type Stretch = { amount: number | string; unit: string };

/** Units of time, with their seconds. */
const UNITS: [string, number][] = [
  ["days", 86_400],
  ["hours", 3_600],
  ["minutes", 60],
  ["seconds", 1],
];

/** The largest unit in which a time is a whole number. */
function inUnits(seconds: number): Stretch {
  const [unit, length] = UNITS.find(([, length]) => seconds >= length && seconds % length === 0) ?? ["seconds", 1];
  return { amount: seconds / length, unit };
}

const inSeconds = ({ amount, unit }: Stretch) => Number(amount) * (UNITS.find(([it]) => it === unit)?.[1] ?? 1);

const amountError = (amount: number | string) => (amount === "" || Number(amount) < 0 ? "Give a number." : null);

type Props = ReturnType<ReturnType<typeof useForm>["getInputProps"]>;

/** A number and its unit. */
function StretchInput({ label, unit, says, amountProps, unitProps }: { label: string; unit: string; says: string; amountProps: Props; unitProps: Props }) {
  return (
    <div>
      <Group gap="xs" align="flex-end" wrap="nowrap">
        <NumberInput label={label} min={0} allowDecimal={false} allowNegative={false} style={{ flex: 1 }} {...amountProps} />
        <Select aria-label={unit} data={UNITS.map(([name]) => name)} allowDeselect={false} w={120} {...unitProps} />
      </Group>
      <Text size="xs" className="quiet" mt={4}>
        {says}
      </Text>
    </div>
  );
}

/** The present value, and the time from which a change applies. */
function threadsSay({ threads_now, threads_by_option }: Settings): string {
  const now = `${threads_now} since the start`;
  return threads_by_option ? `${now}, by an option, which goes before what is set here.` : `${now}. A change holds from the next start. Empty: one for each processor.`;
}

function General({ settings }: { settings: Settings }) {
  const may = useMay("admin");
  const form = useForm<{ name: string; bin: Stretch; scrub: Stretch; lock: Stretch; throttle: number | string; zone: string; threads: number | string }>({
    initialValues: { name: settings.name, bin: inUnits(settings.recycle_bin_seconds), scrub: inUnits(settings.scrub_every_seconds), lock: inUnits(settings.max_retention_lock_seconds), throttle: settings.unmap_throttle, zone: settings.time_zone, threads: settings.threads ?? "" },
    validate: { name: nameError, bin: { amount: amountError }, scrub: { amount: amountError }, lock: { amount: amountError } },
  });
  const save = useChange({
    run: ({ name, bin, scrub, lock, throttle, zone, threads }: typeof form.values) =>
      answer(api.PATCH("/api/v1/settings", { body: { name, recycle_bin_seconds: inSeconds(bin), scrub_every_seconds: inSeconds(scrub), max_retention_lock_seconds: inSeconds(lock), unmap_throttle: Number(throttle), time_zone: zone, threads: threads === "" ? null : Number(threads) } })),
    done: () => "The settings are saved.",
  });
  return (
    <Panel title="General">
      <form noValidate onSubmit={form.onSubmit((values) => save.mutate(values))}>
        <fieldset className="plain-fieldset" disabled={!may}>
          <Stack gap="md">
            <TextInput label="Name of the array" autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
            <TimeZoneInput description="Of snapshot schedules. Runs that were due before a change are skipped." {...form.getInputProps("zone")} />
            <StretchInput label="Recycle bin retention" unit="Unit of time for the recycle bin" says="Space is freed afterwards. Also applies to items that are already in the recycle bin." amountProps={form.getInputProps("bin.amount")} unitProps={form.getInputProps("bin.unit")} />
            <StretchInput label="Interval between scrubs" unit="Unit of time for the scrub" says="A scrub reads and verifies all data in the background, and repairs what is wrong. 0: no scheduled scrubs." amountProps={form.getInputProps("scrub.amount")} unitProps={form.getInputProps("scrub.unit")} />
            <StretchInput label="Longest retention lock" unit="Unit of time for the retention lock" says="A retention lock can’t be taken back: this bounds mistakes. What is locked stays locked." amountProps={form.getInputProps("lock.amount")} unitProps={form.getInputProps("lock.unit")} />
            <NumberInput label="UNMAP throttle" description="0: off. 9: 384 MiB per second; each level below 9 doubles the rate." min={0} max={9} allowDecimal={false} {...form.getInputProps("throttle")} />
            <NumberInput label="Threads for hosts" description={threadsSay(settings)} min={1} max={256} allowDecimal={false} {...form.getInputProps("threads")} />
            <ProblemAlert error={save.error} />
            <May role="admin">
              <Group justify="flex-end">
                <Button type="submit" loading={save.isPending} disabled={!form.isDirty()}>
                  Save
                </Button>
              </Group>
            </May>
          </Stack>
        </fieldset>
      </form>
    </Panel>
  );
}

function Addresses({ of }: { of: string[] }) {
  return of.map((address) => (
    <div key={address}>
      {address} <CopyText text={address} label={`Copy ${address}`} />
    </div>
  ));
}

function Portals() {
  const { data } = useQuery(array());
  if (!data) return <Skeleton height={220} />;
  return (
    <Panel title="Identity and portals">
      <dl className="facts">
        <dt>Target</dt>
        <dd>
          {data.target_iqn} <CopyText text={data.target_iqn} label="Copy the target name" />
        </dd>
        <dt>Portals</dt>
        <dd className="number">
          <Addresses of={data.portals} />
        </dd>
        {data.nvme_portals.length > 0 && (
          <>
            <dt>NVMe/TCP subsystem</dt>
            <dd>
              {data.subsystem_nqn} <CopyText text={data.subsystem_nqn} label="Copy the NQN of the subsystem" />
            </dd>
            <dt>NVMe/TCP portals</dt>
            <dd className="number">
              <Addresses of={data.nvme_portals} />
            </dd>
          </>
        )}
        <dt>Drives</dt>
        <dd>{ENCRYPTION[data.encryption]}</dd>
        <dt>Serial number</dt>
        <dd>{data.serial}</dd>
        <dt>Version</dt>
        <dd className="number">{data.version}</dd>
      </dl>
      <Text size="xs" className="quiet" mt="md">
        Those of the start are options of ashlard; others are added under Portals.
      </Text>
    </Panel>
  );
}
