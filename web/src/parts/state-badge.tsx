import { Badge } from "@mantine/core";
import { CircleAlert, CircleCheck, CirclePause, CircleX, Unplug } from "lucide-react";

const STATES = {
  online: { color: "teal", icon: CircleCheck, label: "Online" },
  stopped: { color: "red", icon: CircleX, label: "Stopped" },
  standby: { color: "yellow", icon: CirclePause, label: "Standby" },
  silent: { color: "red", icon: CircleAlert, label: "Not responding" },
  unreachable: { color: "orange", icon: Unplug, label: "Unreachable" },
} as const;

/** A state in words, colour and shape; each is enough alone. */
export function StateBadge({ state }: { state: keyof typeof STATES }) {
  const { color, icon: Icon, label } = STATES[state];
  return (
    <Badge color={color} variant="light" leftSection={<Icon size={13} aria-hidden />} tt="none" fw={500} style={{ flex: "none" }}>
      {label}
    </Badge>
  );
}
