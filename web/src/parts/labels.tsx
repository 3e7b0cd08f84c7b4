import { Button, Text, Textarea } from "@mantine/core";
import { useForm } from "@mantine/form";
import { Tag } from "lucide-react";
import { useState } from "react";
import { useChange } from "../api/queries";
import { FormModal } from "./form";
import { May } from "./may";
import { Panel } from "./panel";

/** Labels by key. */
export type Labels = Record<string, string>;
/** Labels to set; null removes a label. */
export type LabelsChange = Record<string, string | null>;

type Props = { of: string; labels: Labels; save: (labels: LabelsChange) => Promise<unknown> };

const text = (labels: Labels) =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join("\n");

/** The labels in a text, one per line; null if a line is not a label. */
export function parseLabels(lines: string): Labels | null {
  const pairs = lines
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean)
    .map((line) => /^([^=]+)=(.*)$/.exec(line));
  if (pairs.some((pair) => !pair)) return null;
  return Object.fromEntries(pairs.map((pair) => [pair?.[1]?.trim() ?? "", pair?.[2]?.trim() ?? ""]));
}

/** The filter choices of labels: each key, and each key with its value. */
export const labelChoices = (labels: Labels): string[] => Object.entries(labels).flatMap(([key, value]) => [key, `${key}=${value}`]);

/** The filter of a list of objects with labels. */
export const LABEL_FILTER = { label: "Label", of: ({ labels }: { labels: Labels }) => labelChoices(labels) };

/** The change from one set of labels to another: it removes missing labels. */
export function labelsChange(before: Labels, after: Labels): LabelsChange {
  const removed = Object.keys(before).filter((key) => !(key in after));
  return { ...Object.fromEntries(removed.map((key) => [key, null])), ...after };
}

/** The labels of an object, which operators and drivers attach to it. */
export function LabelsPanel({ of, labels, save }: Props) {
  const [editing, setEditing] = useState(false);
  const shown = Object.entries(labels);
  const edit = (
    <May>
      <Button variant="default" size="compact-sm" leftSection={<Tag size={14} aria-hidden />} onClick={() => setEditing(true)}>
        Edit labels
      </Button>
    </May>
  );
  return (
    <Panel title="Labels" actions={edit}>
      {shown.length === 0 && (
        <Text size="sm" className="quiet">
          No labels. Lists can be filtered by labels, and drivers keep their own names in them.
        </Text>
      )}
      <dl className="facts">
        {shown.map(([key, value]) => (
          <div key={key} style={{ display: "contents" }}>
            <dt>{key}</dt>
            <dd>{value || <span className="quiet">empty</span>}</dd>
          </div>
        ))}
      </dl>
      <EditLabels key={text(labels)} of={of} labels={labels} save={save} opened={editing} onClose={() => setEditing(false)} />
    </Panel>
  );
}

function EditLabels({ of, labels, save, opened, onClose }: Props & { opened: boolean; onClose: () => void }) {
  const form = useForm({
    initialValues: { lines: text(labels) },
    validate: { lines: (lines) => (parseLabels(lines) ? null : "Write a key, an equals sign and a value in each line.") },
  });
  const change = useChange({
    run: ({ lines }: typeof form.values) => save(labelsChange(labels, parseLabels(lines) ?? {})),
    done: () => `The labels of ${of} are saved.`,
    then: onClose,
  });
  return (
    <FormModal opened={opened} onClose={onClose} title={`Labels of ${of}`} verb="Save" busy={change.isPending} error={change.error} onSubmit={form.onSubmit((values) => change.mutate(values))}>
      <Textarea label="Labels" description="One in each line: key=value" placeholder="tier=gold" autosize minRows={4} spellCheck={false} data-autofocus {...form.getInputProps("lines")} />
    </FormModal>
  );
}
