import { Checkbox, Group, NumberInput, Select, Switch, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useLocation } from "wouter";
import { answer, api, created } from "../../api/client";
import { snapshotsOf, useChange } from "../../api/queries";
import type { SchemaSnapshot as Snapshot, SchemaVolume as Volume } from "../../api/schema";
import { bytes, moment, plural, utcFromNow } from "../../format";
import { Confirm } from "../../parts/confirm";
import { connectedText, lockedText } from "../undeletable";
import { FormModal } from "../../parts/form";
import { nameError } from "../../parts/size-input";
import { SubjectSelect, subjectOf } from "../subject";

type Window = { opened: boolean; onClose: () => void };

const snapshotPath = (name: string) => `/snapshots/${encodeURIComponent(name)}`;

const suffixError = (suffix: string) => (suffix === "" ? null : nameError(suffix));

const HOUR = 3_600_000;

const fromNow = (amount: number, unit: string) => utcFromNow(amount * (unit === "hours" ? HOUR : 24 * HOUR));

/** Takes a snapshot of the given volume or group, or of one that the user chooses. */
export function TakeSnapshot({ volume, group, opened, onClose }: Window & { volume?: string; group?: string }) {
  const [, go] = useLocation();
  const choose = !volume && !group;
  const form = useForm<{ of: string | null; suffix: string; keep: boolean; amount: number | string; unit: string }>({
    initialValues: { of: null, suffix: "", keep: false, amount: 1, unit: "days" },
    validate: {
      of: (of) => (choose && !of ? "Choose a volume or a group." : null),
      suffix: suffixError,
      amount: (amount, { keep }) => (keep && !(Number(amount) > 0) ? "Give a number above zero." : null),
    },
  });
  const close = () => {
    onClose();
    form.reset();
    take.reset();
  };
  const take = useChange({
    run: async ({ of, suffix, keep, amount, unit }: typeof form.values) => {
      const body = { ...(of ? subjectOf(of) : volume ? { volume } : { group }), ...(suffix && { suffix }), ...(keep && { retain_until: fromNow(Number(amount), unit) }) };
      return (await created(api.POST("/api/v1/snapshots", { body }))).items;
    },
    done: (made) => (made.length === 1 ? `Snapshot ${made[0]?.name} is taken.` : `${plural(made.length, "snapshot")} are taken, all of one moment.`),
    then: (made) => {
      close();
      go(made.length === 1 && made[0] ? snapshotPath(made[0].name) : "/snapshots");
    },
  });
  const of = volume ?? group;
  return (
    <FormModal opened={opened} onClose={close} title={of ? `Snapshot of ${of}` : "Take snapshot"} verb="Take snapshot" busy={take.isPending} error={take.error} onSubmit={form.onSubmit((values) => take.mutate(values))}>
      {choose && <SubjectSelect data-autofocus {...form.getInputProps("of")} />}
      {group && <Text size="sm">Every volume of the group is snapshotted at the same moment.</Text>}
      <TextInput label="Name suffix" description={`${of ?? "The volume’s name"}.${form.values.suffix || "the time"}`} placeholder="the time" autoComplete="off" spellCheck={false} data-autofocus={!choose} {...form.getInputProps("suffix")} />
      <Switch label="Retention lock: it cannot be deleted or changed" {...form.getInputProps("keep", { type: "checkbox" })} />
      {form.values.keep && (
        <>
          <Group gap="xs" wrap="nowrap" align="flex-start">
            <NumberInput aria-label="Duration of the retention lock" min={1} allowDecimal={false} allowNegative={false} style={{ flex: 1 }} {...form.getInputProps("amount")} />
            <Select aria-label="Unit of time" data={["hours", "days"]} allowDeselect={false} w={120} {...form.getInputProps("unit")} />
          </Group>
          <Text size="xs" className="quiet">
            The lock can be extended, but never shortened.
          </Text>
        </>
      )}
    </FormModal>
  );
}

/** Restores a volume from a snapshot. */
export function RestoreVolume({ snapshot, opened, onClose }: Window & { snapshot: Snapshot }) {
  const [, go] = useLocation();
  const source = snapshot.source ?? "";
  const form = useForm({ initialValues: { save: true } });
  const restore = useChange({
    run: async ({ save }: typeof form.values) => {
      if (save) await created(api.POST("/api/v1/snapshots", { body: { volume: source } }));
      return answer(api.POST("/api/v1/volumes/{name}/restore", { params: { path: { name: source } }, body: { source: snapshot.name } }));
    },
    done: () => `${source} was restored to ${moment(snapshot.created)}.`,
    then: () => {
      onClose();
      go(`/volumes/${encodeURIComponent(source)}`);
    },
  });
  return (
    <Confirm opened={opened} onClose={onClose} title={`Restore ${source} from this snapshot?`} name={source} verb="Restore" busy={restore.isPending} error={restore.error} onConfirm={() => restore.mutate(form.values)}>
      All data written to {source} after {moment(snapshot.created)} is lost. Unmount it on the hosts first.
      <Checkbox mt="md" label="Take a safety snapshot of the current contents" {...form.getInputProps("save", { type: "checkbox" })} />
    </Confirm>
  );
}

/** Creates a clone of a snapshot. */
export function CloneSnapshot({ snapshot, opened, onClose }: Window & { snapshot: Snapshot }) {
  const [, go] = useLocation();
  const form = useForm({ initialValues: { name: `${snapshot.source ?? snapshot.name}-copy` }, validate: { name: nameError } });
  const clone = useChange({
    run: ({ name }: typeof form.values) => created(api.POST("/api/v1/volumes", { body: { name, source: snapshot.name } })),
    done: (made: Volume) => `Volume ${made.name} is a clone of ${snapshot.name}.`,
    then: (made) => {
      onClose();
      go(`/volumes/${encodeURIComponent(made.name)}`);
    },
  });
  return (
    <FormModal opened={opened} onClose={onClose} title={`Clone ${snapshot.name}`} verb="Clone" busy={clone.isPending} error={clone.error} onSubmit={form.onSubmit((values) => clone.mutate(values))}>
      <Text size="sm">A volume of {bytes(snapshot.size)} that takes no space until something is written to it.</Text>
      <TextInput label="Name of the volume" data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
    </FormModal>
  );
}

/** Changes the name, write permission and retention lock. */
export function ChangeSnapshot({ snapshot, opened, onClose }: Window & { snapshot: Snapshot }) {
  const [, go] = useLocation();
  const form = useForm<{ name: string; writable: boolean; days: number | string }>({
    initialValues: { name: snapshot.name, writable: snapshot.writable, days: "" },
    validate: { name: nameError },
  });
  const save = useChange({
    run: ({ name, writable, days }: typeof form.values) =>
      answer(
        api.PATCH("/api/v1/snapshots/{name}", {
          params: { path: { name: snapshot.name } },
          body: { ...(name !== snapshot.name && { name }), ...(writable !== snapshot.writable && { writable }), ...(Number(days) > 0 && { retain_until: fromNow(Number(days), "days") }) },
        }),
      ),
    done: (now) => `Snapshot ${now.name} was changed.`,
    then: (now) => {
      onClose();
      if (now.name !== snapshot.name) go(snapshotPath(now.name), { replace: true });
    },
  });
  return (
    <FormModal opened={opened} onClose={onClose} title={`Change ${snapshot.name}`} verb="Save" busy={save.isPending} error={save.error} onSubmit={form.onSubmit((values) => save.mutate(values))}>
      <TextInput label="Name" data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
      <Switch label="Writable by hosts" description="It then no longer preserves the contents of the volume." {...form.getInputProps("writable", { type: "checkbox" })} />
      <NumberInput label="Extend the retention lock to this many days from now" description="It cannot be deleted or changed before. Empty: unchanged." min={1} allowDecimal={false} allowNegative={false} {...form.getInputProps("days")} />
    </FormModal>
  );
}

export function DeleteSnapshot({ snapshot, opened, onClose }: Window & { snapshot: Snapshot }) {
  const [, go] = useLocation();
  const remove = useChange({
    run: () => answer(api.DELETE("/api/v1/snapshots/{name}", { params: { path: { name: snapshot.name } } })),
    done: () => `Snapshot ${snapshot.name} is in the recycle bin.`,
    then: () => go("/snapshots"),
  });
  return (
    <Confirm opened={opened} onClose={onClose} title={`Delete ${snapshot.name}?`} blocked={connectedText(snapshot) ?? lockedText(snapshot)} verb="Delete" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate(undefined)}>
      It moves to the recycle bin. Until it is eradicated, it can be restored, and its space is not freed.
    </Confirm>
  );
}

/** Snapshots of a volume, the newest first. */
export function useSnapshotsOf(volume: string): Snapshot[] | undefined {
  const { data } = useQuery(snapshotsOf(volume));
  return data && [...data].sort((a, b) => (a.created < b.created ? 1 : -1));
}
