import { Stack, Text } from "@mantine/core";
import type { LucideIcon } from "lucide-react";
import type { ReactNode } from "react";

/** The text in place of an empty list: the reason, and the first step. */
export function Empty({ icon: Icon, title, text, action }: { icon: LucideIcon; title: string; text: string; action?: ReactNode }) {
  return (
    <Stack align="center" gap={6} py={44} px="md" ta="center">
      <Icon size={30} strokeWidth={1.5} className="quiet" aria-hidden />
      <Text fw={600}>{title}</Text>
      <Text size="sm" className="quiet" maw={440}>
        {text}
      </Text>
      {action && <div style={{ marginTop: 10 }}>{action}</div>}
    </Stack>
  );
}
