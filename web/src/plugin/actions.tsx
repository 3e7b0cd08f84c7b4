/** The actions in menus of the vSphere Client. Each is the content of a window that the client opens. */
import { NumberInput, Select, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { answer, api, created } from "../api/client";
import { groups, useChange } from "../api/queries";
import { bytes, exactBytes, parseBytes } from "../format";
import { Form } from "../parts/form";
import { ProblemAlert } from "../parts/problem";
import { nameError, SizeInput, sizeError } from "../parts/size-input";
import { storeError } from "./datastore";
import { usePlace } from "./place";
import { useWork, WorkProgress } from "./work";

/** The client's window shows the heading; the page has a heading for screen readers. */
function Action({ title, children }: { title: string; children: (close: () => void) => ReactNode }) {
  const { sdk, about } = usePlace();
  if (!about.may.manage) return <ProblemAlert error={new Error("You need the privilege Ashlar.Manage on this object: an administrator adds it to a role of yours in Administration > Access Control.")} />;
  return (
    <>
      <h1 className="unseen">{title}</h1>
      {children(() => sdk.modal.close())}
    </>
  );
}

export function CreateDatastore() {
  const { about } = usePlace();
  return <Action title={`Create a datastore on ${about.name}`}>{(close) => <CreateForm onClose={close} />}</Action>;
}

export function GrowDatastore() {
  const { about } = usePlace();
  return <Action title={`Grow ${about.name}`}>{(close) => <GrowForm onClose={close} />}</Action>;
}

export function SnapshotDatastore() {
  const { about } = usePlace();
  return <Action title={`Snapshot of ${about.name}`}>{(close) => <SnapshotForm onClose={close} />}</Action>;
}

export function ProtectDatastore() {
  const { about } = usePlace();
  return <Action title={`Protect ${about.name}`}>{(close) => <ProtectForm onClose={close} />}</Action>;
}

type FormProps = { onClose: () => void };

function CreateForm({ onClose }: FormProps) {
  const { about, array } = usePlace();
  const known = useQuery(groups());
  const form = useForm({ initialValues: { name: "", size: "", group: "" }, validate: { name: storeError, size: (text) => sizeError(text) } });
  const { begin, work, error } = useWork("create", ({ name, size, group }: typeof form.values) => ({ name, size: parseBytes(size), array, group }));
  if (work) return <WorkProgress work={work} error={error} onClose={onClose} />;
  return (
    <Form verb="Create" busy={begin.isPending} error={error} onClose={onClose} onSubmit={form.onSubmit((values) => begin.mutate(values))}>
      <Text size="sm">
        A volume on array {array}, connected to all hosts of {about.name}, formatted with VMFS-6 and mounted on them. If a step fails, those before it are undone.
      </Text>
      <TextInput label="Name of the datastore" data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
      <SizeInput label="Size" {...form.getInputProps("size")} />
      <Select label="Volume group" description="Its quota, limits and schedules then count for the datastore." data={[{ value: "", label: "None" }, ...(known.data ?? []).map(({ name }) => ({ value: name, label: name }))]} allowDeselect={false} {...form.getInputProps("group")} />
    </Form>
  );
}

export function GrowForm({ onClose }: FormProps) {
  const { about } = usePlace();
  const now = about.size ?? 0;
  const form = useForm({
    initialValues: { size: exactBytes(now) },
    validate: { size: (text) => sizeError(text) ?? ((parseBytes(text) ?? 0) <= now ? `It already has ${bytes(now)}, and can’t be made smaller.` : null) },
  });
  const { begin, work, error } = useWork("grow", ({ size }: typeof form.values) => ({ size: parseBytes(size) }));
  if (work) return <WorkProgress work={work} error={error} onClose={onClose} />;
  return (
    <Form verb="Grow" busy={begin.isPending} error={error} onClose={onClose} onSubmit={form.onSubmit((values) => begin.mutate(values))}>
      <Text size="sm">The volume, and then the file system on it, without interruption.</Text>
      <SizeInput label="New size" {...form.getInputProps("size")} />
    </Form>
  );
}

function SnapshotForm({ onClose }: FormProps) {
  const { about } = usePlace();
  const volume = about.volume ?? "";
  const form = useForm({ initialValues: { suffix: "" }, validate: { suffix: (suffix) => (suffix === "" ? null : nameError(suffix)) } });
  const take = useChange({
    run: ({ suffix }: typeof form.values) => created(api.POST("/api/v1/snapshots", { body: { volume, ...(suffix && { suffix }) } })),
    done: ({ items }) => `Snapshot ${items[0]?.name} is taken.`,
    then: onClose,
  });
  return (
    <Form verb="Take snapshot" busy={take.isPending} error={take.error} onClose={onClose} onSubmit={form.onSubmit((values) => take.mutate(values))}>
      <Text size="sm">It preserves the volume as it is at this moment, as after a loss of power. Virtual machines keep running.</Text>
      <TextInput label="Name suffix" description={`${volume}.${form.values.suffix || "the time"}`} placeholder="the time" autoComplete="off" spellCheck={false} data-autofocus {...form.getInputProps("suffix")} />
    </Form>
  );
}

const DAY = 86_400;

export function ProtectForm({ onClose }: FormProps) {
  const { about } = usePlace();
  const volume = about.volume ?? "";
  const form = useForm<{ name: string; hourly: number | string; daily: number | string; weekly: number | string; days: number | string }>({
    initialValues: { name: `${volume}-protection`, hourly: 24, daily: 7, weekly: "", days: "" },
    validate: { name: nameError, hourly: (_, { hourly, daily, weekly }) => ([hourly, daily, weekly].some((it) => Number(it) > 0) ? null : "Retain at least one snapshot.") },
  });
  const protect = useChange({
    run: ({ name, days, ...keep }: typeof form.values) => {
      const rules = (["hourly", "daily", "weekly"] as const).filter((when) => Number(keep[when]) > 0).map((when) => ({ when, keep: Number(keep[when]) }));
      return answer(api.POST("/api/v1/schedules", { body: { name, volume, rules, immutable_seconds: Math.round(Number(days) * DAY) } }));
    },
    done: ({ name }) => `Schedule ${name} protects ${about.name}.`,
    then: onClose,
  });
  const count = { min: 0, allowDecimal: false, allowNegative: false } as const;
  return (
    <Form verb="Protect" busy={protect.isPending} error={protect.error} onClose={onClose} onSubmit={form.onSubmit((values) => protect.mutate(values))}>
      <Stack gap="sm">
        <Text size="sm">A schedule on the array takes snapshots of {about.name} and retains this many of each kind.</Text>
        <TextInput label="Name of the schedule" data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
        <NumberInput label="Hourly snapshots to retain" {...count} {...form.getInputProps("hourly")} />
        <NumberInput label="Daily snapshots to retain" {...count} {...form.getInputProps("daily")} />
        <NumberInput label="Weekly snapshots to retain" {...count} {...form.getInputProps("weekly")} />
        <NumberInput label="Retention lock in days" description="No user can delete a snapshot before this age. Empty: no lock." min={0} allowNegative={false} {...form.getInputProps("days")} />
      </Stack>
    </Form>
  );
}
