import { ActionIcon, Tooltip } from "@mantine/core";
import type { LucideIcon } from "lucide-react";

/** An action on a row of a table: an icon with its label. */
export function Act({ label, icon: Icon, onClick }: { label: string; icon: LucideIcon; onClick: () => void }) {
  return (
    <Tooltip label={label}>
      <ActionIcon variant="subtle" color="gray" aria-label={label} onClick={onClick}>
        <Icon size={15} />
      </ActionIcon>
    </Tooltip>
  );
}
