import { Alert, Button, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { CircleAlert } from "lucide-react";
import { useState, type ReactNode } from "react";
import { ProblemAlert } from "./problem";

type Props = {
  opened: boolean;
  onClose: () => void;
  title: string;
  /** The consequence. */
  children: ReactNode;
  /** The text that the user must type before the action; without it a click is enough. */
  name?: string;
  /** Why it can't happen at present, and what to do: nothing is asked for then. */
  blocked?: string | null | false | undefined;
  verb: string;
  busy: boolean;
  error: unknown;
  onConfirm: () => void;
};

/** Asks before a destructive action; the user must type the object's name. */
export function Confirm({ opened, onClose, ...rest }: Props) {
  return (
    <Modal opened={opened} onClose={onClose} title={rest.title}>
      <Question onClose={onClose} {...rest} />
    </Modal>
  );
}

function Question({ onClose, children, name, blocked, verb, busy, error, onConfirm }: Omit<Props, "opened" | "title">) {
  const [typed, setTyped] = useState("");
  if (blocked) {
    return (
      <Stack gap="md">
        <Alert color="orange" icon={<CircleAlert size={18} />} title="Not possible at present" role="alert">
          {blocked}
        </Alert>
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose} data-autofocus>
            Cancel
          </Button>
        </Group>
      </Stack>
    );
  }
  const sure = name === undefined || typed === name;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (sure) onConfirm();
      }}
    >
      <Stack gap="md">
        <div style={{ fontSize: "var(--mantine-font-size-sm)" }}>{children}</div>
        {name !== undefined && (
          <TextInput
            label={
              <>
                Type <Text span ff="monospace" fw={600} inherit>{name}</Text> to confirm
              </>
            }
            value={typed}
            onChange={(event) => setTyped(event.currentTarget.value)}
            data-autofocus
            autoComplete="off"
            spellCheck={false}
          />
        )}
        <ProblemAlert error={error} />
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" color="red.9" disabled={!sure} loading={busy}>
            {verb}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
