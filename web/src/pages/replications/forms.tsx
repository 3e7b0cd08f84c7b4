import { NumberInput, Select, Switch, Textarea, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useLocation } from "wouter";
import { answer, api, created } from "../../api/client";
import { remoteArrays, settings, useChange } from "../../api/queries";
import type { SchemaOnLinkLoss as OnLinkLoss, SchemaReplication as Replication, SchemaReplicationMode as ReplicationMode } from "../../api/schema";
import { FormModal } from "../../parts/form";
import { nameError } from "../../parts/size-input";
import { SubjectSelect, subjectOf } from "../subject";
import { parseRules, ruleText } from "./rules";
import { parseWindows, windowText } from "./windows";

type Window = { opened: boolean; onClose: () => void };

const MINUTE = 60;
const DAY = 86_400;
/** Longest RPO in minutes: a week. */
const MAX_RPO = 7 * 24 * 60;

const rpoError = (minutes: number | string) => (Number(minutes) >= 0.1 && Number(minutes) <= MAX_RPO ? null : "5 seconds (0.1 minutes) to 7 days.");

function RpoInput(props: object) {
  return <NumberInput label="RPO in minutes" description="Recovery point objective: how old the newest complete copy on the other array may become." min={0} max={MAX_RPO} decimalScale={2} allowNegative={false} required {...props} />;
}

type Mode = { mode: ReplicationMode; loss: OnLinkLoss; witness: string | null };

/** The point of acknowledgement, and the handling of writes while the other array is out of reach. */
function ModeInputs({ form, mode, witness, others }: { form: { getInputProps: (field: "mode" | "loss" | "witness") => object }; mode: ReplicationMode; witness: string | null; others: string[] }) {
  return (
    <>
      <Select
        label="Mode"
        description="Synchronous: a write is acknowledged when both arrays have it, so a loss of this array loses no acknowledged write. Each write takes at least the round trip to the other array."
        data={[
          { value: "async", label: "Asynchronous" },
          { value: "sync", label: "Synchronous" },
        ]}
        allowDeselect={false}
        {...form.getInputProps("mode")}
      />
      {mode === "sync" && <Select label="Witness" description="A third array, paired with both. It decides which of the two continues after a loss, so a failover needs no operator." placeholder="None: you decide" data={others} nothingFoundMessage="No third array is paired with this one." searchable clearable {...form.getInputProps("witness")} />}
      {mode === "sync" && !witness && (
        <Select
          label="While the other array is out of reach"
          data={[
            { value: "continue", label: "Hosts continue; new writes are on this array only" },
            { value: "stop", label: "Writes wait, and are refused after 20 seconds" },
          ]}
          allowDeselect={false}
          {...form.getInputProps("loss")}
        />
      )}
    </>
  );
}

/** The mode in the API's form. */
const modeOf = ({ mode, loss, witness }: Mode) => (mode === "sync" ? { mode, ...(witness ? { on_link_loss: "stop" as const, witness } : { on_link_loss: loss }) } : { mode });

/** The mode as a change: without a witness, writes wait until an operator decides otherwise. */
const modeChangeOf = (mode: Mode, before: string | null | undefined) => (mode.mode === "sync" && before && !mode.witness ? { mode: mode.mode, on_link_loss: "stop" as const, witness: null } : modeOf(mode));

/** The arrays that can be the witness of a replication to another one. */
const thirds = (all: { name: string }[] | undefined, remote: string | null) => (all ?? []).map((it) => it.name).filter((name) => name !== remote);

/** Protects a volume group, or a volume, on another array. */
export function CreateReplication({ opened, onClose }: Window) {
  const [, go] = useLocation();
  const remotes = useQuery({ ...remoteArrays(), enabled: opened });
  const form = useForm<Mode & { name: string; of: string | null; remote: string | null; minutes: number | string }>({
    initialValues: { name: "", of: null, remote: null, minutes: 15, mode: "async", loss: "continue", witness: null },
    validate: { name: nameError, of: (of) => (of ? null : "Choose a volume group or a volume."), remote: (remote) => (remote ? null : "Choose an array."), minutes: rpoError },
  });
  const close = () => {
    onClose();
    form.reset();
    create.reset();
  };
  const create = useChange({
    run: ({ name, of, remote, minutes, mode, loss, witness }: typeof form.values) =>
      created(api.POST("/api/v1/replications", { body: { name, ...subjectOf(of), remote_array: remote ?? "", rpo_seconds: Math.round(Number(minutes) * MINUTE), ...modeOf({ mode, loss, witness }) } })),
    done: (made) => `${made.name} is being replicated to ${made.remote_array}.`,
    then: (made) => {
      close();
      go(`/replications/${encodeURIComponent(made.name)}`);
    },
  });
  return (
    <FormModal opened={opened} onClose={close} title="Create replication" verb="Create" busy={create.isPending} error={create.error} onSubmit={form.onSubmit((values) => create.mutate(values))}>
      <TextInput label="Name" data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
      <SubjectSelect description="Volumes of a group are replicated as of one moment, so that an application which uses several of them finds them consistent." {...form.getInputProps("of")} />
      <Select label="Remote array" placeholder="An array that is paired with this one" data={remotes.data?.map((it) => it.name) ?? []} nothingFoundMessage="No array is paired with this one." searchable required {...form.getInputProps("remote")} />
      <ModeInputs form={form} mode={form.values.mode} witness={form.values.witness} others={thirds(remotes.data, form.values.remote)} />
      <RpoInput {...form.getInputProps("minutes")} />
    </FormModal>
  );
}

/** Changes the name, the RPO on the source, and the retention on the target. */
export function ChangeReplication({ replication, opened, onClose }: Window & { replication: Replication }) {
  const [, go] = useLocation();
  const isSource = replication.role === "source";
  const zone = useQuery({ ...settings(), enabled: opened && isSource });
  const remotes = useQuery({ ...remoteArrays(), enabled: opened && isSource });
  const form = useForm<Mode & { name: string; minutes: number | string; blackouts: string; keep: number | string; rules: string; days: number | string; snapshots: boolean; keepSnapshots: number | string }>({
    initialValues: { mode: replication.mode, loss: replication.on_link_loss ?? "continue", witness: replication.witness ?? null, name: replication.name, minutes: replication.rpo_seconds / MINUTE, blackouts: replication.blackouts.map(windowText).join("\n"), keep: replication.keep_points ?? 1, rules: replication.keep_rules.map(ruleText).join("\n"), days: replication.lock_seconds ? Math.round((replication.lock_seconds / DAY) * 100) / 100 : "", snapshots: replication.replicate_snapshots ?? false, keepSnapshots: replication.keep_snapshots ?? 1 },
    validate: { name: nameError, minutes: rpoError, keepSnapshots: (keep) => (Number(keep) >= 1 && Number(keep) <= 1000 ? null : "1 to 1000."), blackouts: (text) => (parseWindows(text) ? null : "Write one window a line, such as mon-fri 08:00-18:00."), keep: (keep) => (Number(keep) >= 1 && Number(keep) <= 1000 ? null : "1 to 1000."), rules: (text) => (parseRules(text) ? null : "Write one rule a line, such as daily=7.") },
  });
  const save = useChange({
    run: ({ mode, loss, witness, name, minutes, blackouts, keep, rules, days, snapshots, keepSnapshots }: typeof form.values) => {
      const body = { ...(name !== replication.name && { name }), ...(isSource ? { ...modeChangeOf({ mode, loss, witness }, replication.witness), rpo_seconds: Math.round(Number(minutes) * MINUTE), blackouts: mode === "async" ? (parseWindows(blackouts) ?? []) : [], replicate_snapshots: snapshots } : { keep_points: Number(keep), keep_snapshots: Number(keepSnapshots), keep_rules: parseRules(rules) ?? [], lock_seconds: Math.round(Number(days) * DAY) }) };
      return answer(api.PATCH("/api/v1/replications/{name}", { params: { path: { name: replication.name } }, body }));
    },
    done: (now) => `Replication ${now.name} is changed.`,
    then: (now) => {
      onClose();
      if (now.name !== replication.name) go(`/replications/${encodeURIComponent(now.name)}`);
    },
  });
  return (
    <FormModal opened={opened} onClose={onClose} title={`Change ${replication.name}`} verb="Save" busy={save.isPending} error={save.error} onSubmit={form.onSubmit((values) => save.mutate(values))}>
      <TextInput label="Name" description="On this array only." data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
      {isSource && <ModeInputs form={form} mode={form.values.mode} witness={form.values.witness} others={thirds(remotes.data, replication.remote_array)} />}
      {isSource && <RpoInput {...form.getInputProps("minutes")} />}
      {isSource && form.values.mode === "async" && (
        <Textarea
          label="Blackout windows"
          description={`No point is taken or transferred then, unless you choose “Sync now”. One per line: mon-fri 08:00-18:00. Times are those of ${zone.data?.time_zone ?? "the array’s time zone"}.`}
          autosize
          minRows={2}
          autoComplete="off"
          spellCheck={false}
          {...form.getInputProps("blackouts")}
        />
      )}
      {!isSource && <NumberInput label="Points to retain" description="Complete points that this array keeps; older ones are deleted." min={1} max={1000} allowDecimal={false} allowNegative={false} required {...form.getInputProps("keep")} />}
      {isSource && <Switch label="Replicate snapshots of users and schedules" description="Snapshots of all of its volumes at one moment become points of their own on the other array." {...form.getInputProps("snapshots", { type: "checkbox" })} />}
      {!isSource && <NumberInput label="Points of snapshots to retain" description="Of snapshots of the source, where it replicates them; besides the other points." min={1} max={1000} allowDecimal={false} allowNegative={false} required {...form.getInputProps("keepSnapshots")} />}
      {!isSource && <Textarea label="Rules for older points" description="The first point of each period is kept. One rule per line: hourly=24, daily=7, or the five fields of cron." autosize minRows={2} autoComplete="off" spellCheck={false} {...form.getInputProps("rules")} />}
      {!isSource && <NumberInput label="Retention lock in days" description="Points that arrive from now on cannot be deleted before this age. Empty: no lock." min={0} allowNegative={false} {...form.getInputProps("days")} />}
    </FormModal>
  );
}
