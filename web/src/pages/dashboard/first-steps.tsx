import { Button, Group, List, Text } from "@mantine/core";
import { Link } from "wouter";
import { May } from "../../parts/may";
import { Panel } from "../../parts/panel";

/** What a new array is waiting for. */
export function FirstSteps() {
  return (
    <Panel title="Your array is ready">
      <Group justify="space-between" align="flex-end" gap="md">
        <div>
          <Text size="sm" mb={6}>
            Three steps until a host can store data on it:
          </Text>
          <List type="ordered" size="sm" spacing={2}>
            <List.Item>Make the host known, by its iSCSI name.</List.Item>
            <List.Item>Create a volume and connect it to the host.</List.Item>
            <List.Item>Log in on the host; its page shows the commands.</List.Item>
          </List>
        </div>
        <May>
          <Button component={Link} href="/hosts?new">
            Add the first host
          </Button>
        </May>
      </Group>
    </Panel>
  );
}
