/** Commands that resolve the condition of an alert, each after a confirmation. */
import { Button } from "@mantine/core";
import { useState } from "react";
import { answer, api } from "../../api/client";
import { useChange } from "../../api/queries";
import type { SchemaAlert as Alert } from "../../api/schema";
import { Confirm } from "../../parts/confirm";
import { May } from "../../parts/may";

type Props = { opened: boolean; onClose: () => void; alert: Alert };

const REMEDIES: Record<string, { label: string; dialog: (props: Props) => React.JSX.Element }> = {
  "clock.jumped": { label: "Confirm time", dialog: ConfirmTime },
  "volume.state-unreadable": { label: "Clear state", dialog: ClearState },
};

/** The button of an active alert whose condition a command resolves. */
export function Remedy({ alert }: { alert: Alert }) {
  const [opened, setOpened] = useState(false);
  const remedy = REMEDIES[alert.kind];
  if (!remedy || alert.state === "closed") return null;
  const Dialog = remedy.dialog;
  return (
    <May role="admin">
      <Button variant="light" size="compact-sm" onClick={() => setOpened(true)}>
        {remedy.label}
      </Button>
      <Dialog alert={alert} opened={opened} onClose={() => setOpened(false)} />
    </May>
  );
}

function ConfirmTime({ opened, onClose }: Props) {
  const confirm = useChange({
    run: () => answer(api.POST("/api/v1/array/confirm-time")),
    done: () => "The time is confirmed.",
    then: onClose,
  });
  return (
    <Confirm opened={opened} onClose={onClose} title="Confirm the time of the array?" verb="Confirm time" busy={confirm.isPending} error={confirm.error} onConfirm={() => confirm.mutate(undefined)}>
      Check the clock of the array and its synchronisation first. After the confirmation the recycle bin, retention locks and schedules follow the clock again: what has expired by that time is eradicated.
    </Confirm>
  );
}

function ClearState({ alert, opened, onClose }: Props) {
  const name = alert.name ?? "";
  const clear = useChange({
    run: () => answer(api.POST("/api/v1/volumes/{name}/clear-state", { params: { path: { name } } })),
    done: () => `The reservation state of ${name} is cleared. Hosts can write to it again.`,
    then: onClose,
  });
  return (
    <Confirm opened={opened} onClose={onClose} title={`Clear the state of ${name}?`} name={name} verb="Clear state" busy={clear.isPending} error={clear.error} onConfirm={() => clear.mutate(undefined)}>
      Its saved reservations and mode pages cannot be decoded and are discarded. Make sure first that only the intended hosts use it: afterwards every connected host can write to it.
    </Confirm>
  );
}
