import { Button, Group } from "@mantine/core";
import type { ReactNode } from "react";
import { Panel } from "../../parts/panel";

type StepProps = { title: string; onBack?: () => void; children: ReactNode; forward: ReactNode };

/** The frame of a step. */
export function Step({ title, onBack, children, forward }: StepProps) {
  return (
    <Panel title={title}>
      {children}
      <Group justify="flex-end" gap="xs" mt="lg">
        {onBack && (
          <Button variant="default" onClick={onBack}>
            Back
          </Button>
        )}
        {forward}
      </Group>
    </Panel>
  );
}
