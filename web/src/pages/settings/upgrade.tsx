import { Alert, Button, List, Skeleton, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { CircleCheck, Info, TriangleAlert } from "lucide-react";
import { useState } from "react";
import { answer, api } from "../../api/client";
import { upgrade, useChange } from "../../api/queries";
import type { SchemaFormatPart as FormatPart } from "../../api/schema";
import { Confirm } from "../../parts/confirm";
import { May } from "../../parts/may";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";

const PARTS: Record<FormatPart, string> = {
  engine: "Volumes and journal",
  store: "Store",
  records: "Configuration records",
  unit_state: "Saved reservations and mode pages",
  replication_link: "Replication between arrays",
};

/** The array's formats, and the commit to the newest ones. */
export function UpgradePanel() {
  const { data, error } = useQuery(upgrade());
  const [asked, setAsked] = useState(false);
  const close = () => setAsked(false);
  const commit = useChange({
    run: () => answer(api.POST("/api/v1/upgrade/commit")),
    done: () => "The upgrade is committed.",
    then: close,
  });
  return (
    <Panel
      title="Upgrade"
      actions={
        data &&
        !data.committed && (
          <May role="admin">
            <Button variant="default" size="compact-sm" disabled={data.blocked !== null} onClick={() => setAsked(true)}>
              Commit the upgrade
            </Button>
          </May>
        )
      }
    >
      <ProblemAlert error={error} />
      {!data && !error && <Skeleton height={160} />}
      {data && (
        <Stack gap="md">
          {data.committed ? (
            <Alert color="teal" icon={<CircleCheck size={18} />} title="The array has the newest format">
              Version {data.software} knows no newer one.
            </Alert>
          ) : (
            <Alert color="gray" icon={<Info size={18} />} title="The upgrade is not committed">
              Version {data.software} works as the release before, which can be installed again. A commit enables:
              <List size="sm" mt="xs">
                {data.enables.map((it) => (
                  <List.Item key={it}>{it}</List.Item>
                ))}
              </List>
            </Alert>
          )}
          {data.blocked && (
            <Alert color="yellow" icon={<TriangleAlert size={18} />} title="It can't be committed now">
              {data.blocked}
            </Alert>
          )}
          <Table.ScrollContainer minWidth={420}>
            <Table aria-label="Formats">
              <Table.Thead>
                <Table.Tr>
                  <Table.Th scope="col">Part</Table.Th>
                  <Table.Th scope="col">In use</Table.Th>
                  <Table.Th scope="col">Known</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {data.formats.map(({ part, active, oldest, newest }) => (
                  <Table.Tr key={part}>
                    <Table.Th scope="row" fw={400}>{PARTS[part]}</Table.Th>
                    <Table.Td className="number">{active ?? "each its own"}</Table.Td>
                    <Table.Td className="number">{oldest === newest ? newest : `${oldest} to ${newest}`}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
          <Text size="sm" className="quiet">
            Opening the array with a newer version changes no format. Only the commit does.
          </Text>
        </Stack>
      )}
      <Confirm opened={asked} onClose={close} title="Commit the upgrade?" verb="Commit the upgrade" busy={commit.isPending} error={commit.error} onConfirm={() => commit.mutate(undefined)}>
        The array gets the newest format at once, without interruption to hosts. Releases that do not know it can&rsquo;t open the array any more: there is no way back to them.
      </Confirm>
    </Panel>
  );
}
