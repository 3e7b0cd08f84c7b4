import { Button, Code, SimpleGrid, Stack, Textarea, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useRef } from "react";
import { answer, api } from "../../api/client";
import { useChange } from "../../api/queries";
import { parseBytes } from "../../format";
import { ProblemAlert } from "../../parts/problem";
import { nameError, sizeError, SizeInput } from "../../parts/size-input";
import { namesByKind, namesError } from "../hosts/forms";
import { Step } from "./step";

/** The created host and volume. */
export type Given = { host: string; volume: string };

/** Creates a host and a volume, and connects them. */
export function FirstHost({ onBack, onDone }: { onBack: () => void; onDone: (given: Given) => void }) {
  const form = useForm({
    initialValues: { host: "", names: "", volume: "", size: "1 TiB" },
    validate: { host: nameError, names: namesError, volume: nameError, size: (text) => sizeError(text) },
  });
  // The objects that an earlier attempt created before a refusal.
  const made = useRef<Partial<Given>>({});
  const give = useChange({
    run: async ({ host, names, volume, size }: typeof form.values) => {
      if (made.current.host !== host) await answer(api.POST("/api/v1/hosts", { body: { name: host, ...namesByKind(names) } }));
      made.current.host = host;
      if (made.current.volume !== volume) await answer(api.POST("/api/v1/volumes", { body: { name: volume, size: parseBytes(size) ?? 0 } }));
      made.current.volume = volume;
      await answer(api.POST("/api/v1/connections", { body: { volume, host } }));
      return { host, volume };
    },
    done: ({ host, volume }) => `${host} is connected to ${volume}.`,
    then: onDone,
  });
  return (
    <form noValidate onSubmit={form.onSubmit((values) => give.mutate(values))}>
      <Step
        title="First host and volume"
        onBack={onBack}
        forward={
          <Button type="submit" loading={give.isPending}>
            Create both
          </Button>
        }
      >
        <Stack gap="md">
          <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="lg">
            <Stack gap="md">
              <TextInput label="Name of the host" description="Name of the server." autoComplete="off" spellCheck={false} required {...form.getInputProps("host")} />
              <Textarea label="iSCSI name or NQN" description={<>On Linux, for iSCSI: <Code>cat /etc/iscsi/initiatorname.iscsi</Code>, for NVMe/TCP: <Code>cat /etc/nvme/hostnqn</Code></>} placeholder="iqn.1993-08.org.debian:01:abcdef" autosize minRows={1} spellCheck={false} required {...form.getInputProps("names")} />
            </Stack>
            <Stack gap="md">
              <TextInput label="Name of the volume" description="Disk of the host." autoComplete="off" spellCheck={false} required {...form.getInputProps("volume")} />
              <SizeInput label="Size" {...form.getInputProps("size")} />
            </Stack>
          </SimpleGrid>
          <ProblemAlert error={give.error} />
        </Stack>
      </Step>
    </form>
  );
}
