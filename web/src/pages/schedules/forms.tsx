import { ActionIcon, Button, Group, NumberInput, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { Plus, X } from "lucide-react";
import { answer, api } from "../../api/client";
import { settings, useChange } from "../../api/queries";
import type { SchemaSchedule as Schedule } from "../../api/schema";
import { Confirm } from "../../parts/confirm";
import { FormModal } from "../../parts/form";
import { whenText } from "../../cron";
import { nameError } from "../../parts/size-input";
import { SubjectSelect, subjectOf } from "../subject";

const WHENS = ["hourly", "daily", "weekly", "monthly", "yearly"];
const DAY = 86_400;

type Values = { name: string; of: string | null; rules: { when: string; keep: number | string }[]; days: number | string };

/** Creates a schedule, or changes its name and rules. */
export function ScheduleForm({ schedule, opened, onClose }: { schedule?: Schedule; opened: boolean; onClose: () => void }) {
  const zone = useQuery({ ...settings(), enabled: opened });
  const form = useForm<Values>({
    initialValues: {
      name: schedule?.name ?? "",
      of: null,
      rules: schedule?.rules ?? [{ when: "hourly", keep: 24 }, { when: "daily", keep: 7 }],
      days: schedule?.immutable_seconds ? Math.round((schedule.immutable_seconds / DAY) * 100) / 100 : "",
    },
    validate: {
      name: nameError,
      of: (of) => (schedule || of ? null : "Choose a volume or a group."),
      rules: { keep: (keep) => (Number(keep) > 0 ? null : "How many?"), when: (when) => (when.trim() === "" ? "When?" : null) },
    },
  });
  const close = () => {
    onClose();
    form.reset();
    save.reset();
  };
  const save = useChange({
    run: ({ name, of, rules, days }: Values) => {
      const body = { rules: rules.map((it) => ({ when: it.when.trim(), keep: Number(it.keep) })), immutable_seconds: Math.round(Number(days) * DAY) };
      if (schedule) return answer(api.PATCH("/api/v1/schedules/{name}", { params: { path: { name: schedule.name } }, body: { ...body, ...(name !== schedule.name && { name }) } }));
      return answer(api.POST("/api/v1/schedules", { body: { name, ...subjectOf(of), ...body } }));
    },
    done: (made) => (schedule ? `Schedule ${made.name} was changed.` : `Schedule ${made.name} was created.`),
    then: close,
  });
  return (
    <FormModal opened={opened} onClose={close} title={schedule ? `Change ${schedule.name}` : "Create schedule"} verb={schedule ? "Save" : "Create"} busy={save.isPending} error={save.error} onSubmit={form.onSubmit((values) => save.mutate(values))}>
      <TextInput label="Name" data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
      {!schedule && <SubjectSelect {...form.getInputProps("of")} />}
      <fieldset style={{ border: 0, padding: 0, margin: 0 }}>
        <Text component="legend" size="sm" fw={500} mb={4}>
          Rules: when, and how many snapshots to retain
        </Text>
        {form.values.rules.map(({ when }, index) => (
          <Group key={index} gap="xs" mb={6} wrap="nowrap" align="flex-start">
            <TextInput aria-label={`When, rule ${index + 1}`} list="schedule-whens" style={{ flex: 1 }} spellCheck={false} description={whenText(when) === when ? undefined : whenText(when)} inputWrapperOrder={["input", "description", "error"]} {...form.getInputProps(`rules.${index}.when`)} />
            <NumberInput aria-label={`Snapshots to retain, rule ${index + 1}`} min={1} allowDecimal={false} allowNegative={false} w={90} {...form.getInputProps(`rules.${index}.keep`)} />
            <ActionIcon variant="subtle" color="gray" size="lg" aria-label={`Remove rule ${index + 1}`} disabled={form.values.rules.length === 1} onClick={() => form.removeListItem("rules", index)}>
              <X size={15} />
            </ActionIcon>
          </Group>
        ))}
        <datalist id="schedule-whens">
          {WHENS.map((it) => (
            <option key={it} value={it} />
          ))}
        </datalist>
        <Button variant="subtle" size="compact-sm" leftSection={<Plus size={14} aria-hidden />} onClick={() => form.insertListItem("rules", { when: "weekly", keep: 4 })}>
          One more
        </Button>
        <Text size="xs" className="quiet" mt={4}>
          hourly, daily, weekly, monthly, yearly, or five fields of cron: 0 22 * * 1-5. Times are those of {zone.data?.time_zone ?? "the array’s time zone"}.
        </Text>
      </fieldset>
      <NumberInput label="Retention lock in days" description="Snapshots cannot be deleted before this age. Empty: no lock." min={0} allowNegative={false} {...form.getInputProps("days")} />
    </FormModal>
  );
}

export function DeleteSchedule({ schedule, onClose }: { schedule: Schedule; onClose: () => void }) {
  const remove = useChange({
    run: () => answer(api.DELETE("/api/v1/schedules/{name}", { params: { path: { name: schedule.name } } })),
    done: () => `Schedule ${schedule.name} was deleted. Its snapshots are kept.`,
    then: onClose,
  });
  return (
    <Confirm opened onClose={onClose} title={`Delete ${schedule.name}?`} verb="Delete" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate(undefined)}>
      It takes no more snapshots. Its existing snapshots are kept until they are deleted.
    </Confirm>
  );
}
