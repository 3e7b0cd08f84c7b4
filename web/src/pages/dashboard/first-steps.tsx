import { Button, Group, Text } from "@mantine/core";
import { Link } from "wouter";
import { May } from "../../parts/may";
import { Panel } from "../../parts/panel";

/** The first steps of a new array. */
export function FirstSteps() {
  return (
    <Panel title="Your array is ready">
      <Group justify="space-between" align="flex-end" gap="md">
        <Text size="sm">No host is connected. Short steps set the password, notifications, and the first volume on the first host.</Text>
        <May>
          <Group gap="xs">
            <Button component={Link} href="/hosts?new" variant="default">
              Add a host
            </Button>
            <Button component={Link} href="/setup">
              Set up
            </Button>
          </Group>
        </May>
      </Group>
    </Panel>
  );
}
