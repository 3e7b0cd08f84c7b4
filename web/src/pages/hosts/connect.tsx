/** Connects volumes to a host: several at once. */
import { MultiSelect, Switch } from "@mantine/core";
import { useForm } from "@mantine/form";
import { answer, api } from "../../api/client";
import { useChange } from "../../api/queries";
import type { SchemaHost as Host } from "../../api/schema";
import { plural } from "../../format";
import { FormModal } from "../../parts/form";
import { useVolumeChoice } from "../../parts/volume-choice";

export function ConnectToHost({ host, opened, onClose }: { host: Host; opened: boolean; onClose: () => void }) {
  const seen = new Set(host.connections.map((it) => it.volume));
  const form = useForm<{ volumes: string[]; read_only: boolean }>({
    initialValues: { volumes: [], read_only: false },
    validate: { volumes: (chosen) => (chosen.length > 0 ? null : "Choose a volume.") },
  });
  const known = useVolumeChoice(opened, form.values.volumes);
  const close = () => {
    onClose();
    form.reset();
    connect.reset();
  };
  const connect = useChange({
    run: async ({ volumes: chosen, read_only }: typeof form.values) => {
      // One after the other, so that the LUNs follow the order of the choice.
      for (const volume of chosen) await answer(api.POST("/api/v1/connections", { body: { volume, host: host.name, read_only } }));
      return chosen.length;
    },
    done: (count) => `${plural(count, "volume")} ${count === 1 ? "is" : "are"} connected to ${host.name}.`,
    then: close,
  });
  return (
    <FormModal opened={opened} onClose={close} title={`Connect volumes to ${host.name}`} verb="Connect" busy={connect.isPending} error={connect.error} onSubmit={form.onSubmit((values) => connect.mutate(values))}>
      <MultiSelect
        label="Volumes"
        description="Each gets the lowest free LUN."
        data={known.names?.filter((name) => !seen.has(name)) ?? []}
        nothingFoundMessage="There are no other volumes."
        {...known.input}
        clearable
        hidePickedOptions
        required
        data-autofocus
        {...form.getInputProps("volumes")}
      />
      <Switch label="Read-only" {...form.getInputProps("read_only", { type: "checkbox" })} />
    </FormModal>
  );
}
