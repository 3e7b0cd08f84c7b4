import { Button, Group, Modal, Stack } from "@mantine/core";
import type { ReactNode, SubmitEvent } from "react";
import { ProblemAlert } from "./problem";

type Props = {
  opened: boolean;
  onClose: () => void;
  title: string;
  verb: string;
  busy: boolean;
  error: unknown;
  onSubmit: (event: SubmitEvent<HTMLFormElement>) => void;
  children: ReactNode;
};

/** A form in a dialog: fields, the array's refusal, and two buttons. */
export function FormModal({ opened, title, ...rest }: Props) {
  return (
    <Modal opened={opened} onClose={rest.onClose} title={title}>
      <Form {...rest} />
    </Modal>
  );
}

/** The form without the dialog. */
export function Form({ onClose, verb, busy, error, onSubmit, children }: Omit<Props, "opened" | "title">) {
  return (
    <form onSubmit={onSubmit} noValidate>
      <Stack gap="md">
        {children}
        <ProblemAlert error={error} />
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={busy}>
            {verb}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
