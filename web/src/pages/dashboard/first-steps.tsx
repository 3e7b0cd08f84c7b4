import { Button, Group, Text } from "@mantine/core";
import { Link } from "wouter";
import { May } from "../../parts/may";
import { Panel } from "../../parts/panel";

/** What a new array is waiting for. */
export function FirstSteps() {
  return (
    <Panel title="Your array is ready">
      <Group justify="space-between" align="flex-end" gap="md">
        <Text size="sm">No host uses it yet. Five short steps lead to the first disk on the first server.</Text>
        <May>
          <Group gap="xs">
            <Button component={Link} href="/hosts?new" variant="default">
              Add a host only
            </Button>
            <Button component={Link} href="/setup">
              Set it up
            </Button>
          </Group>
        </May>
      </Group>
    </Panel>
  );
}
