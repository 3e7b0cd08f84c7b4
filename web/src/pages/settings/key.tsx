import { Alert, Button, Code, PasswordInput, Skeleton, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { KeyRound, ShieldOff } from "lucide-react";
import { useState } from "react";
import { answer, api } from "../../api/client";
import { driveKey, useChange } from "../../api/queries";
import type { SchemaEncryption as Encryption, SchemaKeyRotation as KeyRotation } from "../../api/schema";
import { Confirm } from "../../parts/confirm";
import { FormModal } from "../../parts/form";
import { May } from "../../parts/may";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { ENCRYPTION } from "./encryption";

/** The drives' encryption, and the rotation of its key. */
export function KeyPanel() {
  const { data, error } = useQuery(driveKey());
  const [opened, setOpened] = useState(false);
  const close = () => setOpened(false);
  const encrypted = data && data.source !== "none";
  return (
    <Panel
      title="Encryption"
      actions={
        encrypted && (
          <May role="admin">
            <Button variant="default" size="compact-sm" leftSection={<KeyRound size={14} aria-hidden />} onClick={() => setOpened(true)}>
              Rotate the key
            </Button>
          </May>
        )
      }
    >
      <ProblemAlert error={error} />
      {!data && !error && <Skeleton height={120} />}
      {data && !encrypted && (
        <Alert color="gray" icon={<ShieldOff size={18} />} title="The drives are not encrypted">
          Anyone with physical access to the drives can read their data. Encryption is chosen when an array is formatted: <Code>ashlard --encrypt</Code>.
        </Alert>
      )}
      {data && encrypted && (
        <Stack gap="md">
          <dl className="facts">
            <dt>Everything on the drives</dt>
            <dd>{ENCRYPTION[data.source]}</dd>
            {data.kmip_id && (
              <>
                <dt>Key on the server</dt>
                <dd style={{ overflowWrap: "anywhere" }}>{data.kmip_id}</dd>
              </>
            )}
            <dt>Generation of the key</dt>
            <dd className="number">{data.generation}</dd>
          </dl>
          <Text size="sm" className="quiet">
            Rotation takes effect immediately and without interruption to hosts, since it only re-encrypts the data encryption key. Keep a copy of the key elsewhere: without it the data on the drives cannot be read.
          </Text>
          {data.source === "file" && <ChangeFile opened={opened} onClose={close} />}
          {data.source !== "file" && <ChangeKey key={data.source} source={data.source} opened={opened} onClose={close} />}
        </Stack>
      )}
    </Panel>
  );
}

const DONE: Record<Exclude<Encryption, "none">, string> = {
  file: "The key file has a new key. Copy it to a safe place.",
  passphrase: "The drives have the new passphrase. The next start of the array needs it.",
  kmip: "The drives are encrypted with the other key of the server.",
};

const run = (body: KeyRotation) => answer(api.POST("/api/v1/key/rotate", { body }));

type Props = { opened: boolean; onClose: () => void };

function ChangeFile({ opened, onClose }: Props) {
  const rotate = useChange({ run, done: () => DONE.file, then: onClose });
  const close = () => {
    onClose();
    rotate.reset();
  };
  return (
    <Confirm opened={opened} onClose={close} title="Generate a new key in the key file?" verb="Rotate the key" busy={rotate.isPending} error={rotate.error} onConfirm={() => rotate.mutate({})}>
      Copies of the old key no longer unlock the drives that are present. Make a new copy of the file afterwards.
    </Confirm>
  );
}

function ChangeKey({ source, opened, onClose }: Props & { source: Encryption }) {
  const words = source === "passphrase";
  const form = useForm({
    initialValues: { key: "", again: "" },
    validate: {
      key: (key) => (words ? (key.length < 12 ? "12 characters or more." : null) : key === "" ? "Give its identifier." : null),
      again: (again, { key }) => (!words || again === key ? null : "The passphrases differ."),
    },
  });
  const close = () => {
    onClose();
    form.reset();
    rotate.reset();
  };
  const rotate = useChange({ run, done: () => DONE[words ? "passphrase" : "kmip"], then: close });
  const submit = form.onSubmit(({ key }) => rotate.mutate(words ? { passphrase: key } : { kmip_id: key }));
  return (
    <FormModal opened={opened} onClose={close} title={words ? "Another passphrase" : "Another key on the KMIP server"} verb="Rotate the key" busy={rotate.isPending} error={rotate.error} onSubmit={submit}>
      {words ? (
        <>
          <PasswordInput label="New passphrase" description="12 characters or more. The next start of the array requires it: update the file given with --passphrase-file." autoComplete="new-password" data-autofocus required {...form.getInputProps("key")} />
          <PasswordInput label="Repeat passphrase" autoComplete="new-password" required {...form.getInputProps("again")} />
        </>
      ) : (
        <TextInput label="Unique Identifier" description="Of a new 256-bit AES key on the KMIP server of the array." autoComplete="off" spellCheck={false} data-autofocus required {...form.getInputProps("key")} />
      )}
    </FormModal>
  );
}
