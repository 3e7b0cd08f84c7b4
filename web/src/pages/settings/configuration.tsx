import { Alert, Badge, Button, Checkbox, FileButton, Group, Modal, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Download, TriangleAlert, Upload } from "lucide-react";
import { useRef, useState } from "react";
import { answer, api } from "../../api/client";
import { array, useChange } from "../../api/queries";
import { Refusal } from "../../api/refusal";
import type { SchemaConfigurationImport as Import, SchemaImportAction as Action, SchemaImportStep as Step } from "../../api/schema";
import { plural } from "../../format";
import { save } from "../../parts/chart";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";

/** Largest request that the array accepts, in bytes. */
const MAX_BYTES = 1 << 20;

const ACTIONS: Record<Action, { text: string; color: string }> = {
  create: { text: "create", color: "teal" },
  overwrite: { text: "overwrite", color: "orange" },
  differs: { text: "differs, stays", color: "yellow" },
  needs_secret: { text: "needs a secret", color: "yellow" },
  by_hand: { text: "by hand", color: "yellow" },
  failed: { text: "failed", color: "red" },
  unchanged: { text: "unchanged", color: "gray" },
};

/** The configuration as one document: export, and import after a preview of its changes. */
export function ConfigurationPanel() {
  const name = useQuery(array()).data?.name ?? "ashlar";
  const [chosen, setChosen] = useState<{ name: string; document: Import["document"] }>();
  const forget = useRef<() => void>(null);
  const exported = useChange({
    run: () => answer(api.GET("/api/v1/configuration")),
    done: () => "The configuration is downloaded.",
    then: (document) => save(new Blob([JSON.stringify(document, null, 2), "\n"], { type: "application/json" }), `${name}-configuration.json`),
  });
  const [error, setError] = useState<Error>();
  const choose = async (file: File | null) => {
    forget.current?.();
    if (!file) return;
    try {
      setChosen({ name: file.name, document: await read(file) });
      setError(undefined);
    } catch (problem) {
      setError(Refusal.of(problem));
    }
  };
  return (
    <Panel
      title="Configuration"
      actions={
        <Group gap="xs">
          <FileButton accept="application/json,.json" onChange={(file) => void choose(file)} resetRef={forget} inputProps={{ "aria-label": "Configuration document" }}>
            {(props) => (
              <Button variant="default" size="compact-sm" leftSection={<Upload size={14} aria-hidden />} {...props}>
                Import
              </Button>
            )}
          </FileButton>
          <Button variant="default" size="compact-sm" leftSection={<Download size={14} aria-hidden />} loading={exported.isPending} onClick={() => exported.mutate(undefined)}>
            Export
          </Button>
        </Group>
      }
    >
      <ProblemAlert error={exported.error ?? error} />
      <Text size="sm">
        One document with hosts, volumes without contents, connections, schedules, users and settings. It has no secrets and says what it leaves out. An import compares it with the array first, creates what is missing, and deletes nothing.
      </Text>
      {chosen && <ImportModal file={chosen.name} document={chosen.document} onClose={() => setChosen(undefined)} />}
    </Panel>
  );
}

/** The document in a file; the array checks its fields. */
async function read(file: File): Promise<Import["document"]> {
  if (file.size > MAX_BYTES) throw new Error("The document has more than 1 MiB: import it section by section.");
  const document: unknown = await file
    .text()
    .then((text) => JSON.parse(text) as unknown)
    .catch(() => undefined);
  if (typeof document !== "object" || document === null || Array.isArray(document)) throw new Error(`${file.name} is no configuration document.`);
  return document as Import["document"];
}

/** The preview of an import, and the import. */
function ImportModal({ file, document, onClose }: { file: string; document: Import["document"]; onClose: () => void }) {
  const [overwrite, setOverwrite] = useState<string[]>([]);
  const [all, setAll] = useState(false);
  const compared = useQuery({
    queryKey: ["configuration", file, overwrite],
    queryFn: ({ signal }) => answer(api.POST("/api/v1/configuration/compare", { body: { document, overwrite }, signal })),
    placeholderData: (before) => before,
    gcTime: 0,
    staleTime: 0,
  });
  const done = useChange({
    run: () => answer(api.POST("/api/v1/configuration/import", { body: { document, overwrite } })),
    done: ({ items }) => `${plural(items.filter(changes).length, "object")} imported.`,
  });
  const steps = done.data?.items ?? compared.data?.items;
  const wanted = steps?.filter(changes).length ?? 0;
  const shown = steps?.filter((step) => all || step.action !== "unchanged");
  const failed = steps?.filter((step) => step.action === "failed").length ?? 0;
  const toggle = (object: string) => setOverwrite((now) => (now.includes(object) ? now.filter((it) => it !== object) : [...now, object]));
  return (
    <Modal opened onClose={onClose} size="xl" title={done.data ? `Imported from ${file}` : `Import ${file}`}>
      <Stack gap="md">
        <ProblemAlert error={done.error ?? compared.error} />
        {!done.data && <Text size="sm">This is the difference. Nothing has changed yet. Objects that differ keep their properties unless they are marked.</Text>}
        {failed > 0 && (
          <Alert color="red" icon={<TriangleAlert size={18} />} title={`${plural(failed, "object")} could not be imported`}>
            The others were. A repeated import creates what is missing.
          </Alert>
        )}
        {shown && steps && (
          <>
            <Checkbox label={`Show unchanged objects (${steps.filter((step) => step.action === "unchanged").length})`} checked={all} onChange={(event) => setAll(event.currentTarget.checked)} />
            {shown.length === 0 ? (
              <Text size="sm" className="quiet">The array matches the document.</Text>
            ) : (
              <Table.ScrollContainer minWidth={480} mah={420}>
                <Table aria-label="Steps of the import">
                  <Table.Thead>
                    <Table.Tr>
                      <Table.Th scope="col">Object</Table.Th>
                      <Table.Th scope="col">Action</Table.Th>
                      <Table.Th scope="col">Detail</Table.Th>
                      {!done.data && <Table.Th scope="col">Overwrite</Table.Th>}
                    </Table.Tr>
                  </Table.Thead>
                  <Table.Tbody>
                    {shown.map((step) => (
                      <Table.Tr key={step.object}>
                        <Table.Th scope="row" fw={400} style={{ overflowWrap: "anywhere" }}>{step.object}</Table.Th>
                        <Table.Td>
                          <Badge variant="light" color={ACTIONS[step.action].color}>{ACTIONS[step.action].text}</Badge>
                        </Table.Td>
                        <Table.Td>{step.detail}</Table.Td>
                        {!done.data && (
                          <Table.Td>
                            {(step.action === "differs" || overwrite.includes(step.object)) && (
                              <Checkbox aria-label={`Overwrite ${step.object}`} checked={overwrite.includes(step.object)} onChange={() => toggle(step.object)} />
                            )}
                          </Table.Td>
                        )}
                      </Table.Tr>
                    ))}
                  </Table.Tbody>
                </Table>
              </Table.ScrollContainer>
            )}
          </>
        )}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            {done.data ? "Close" : "Cancel"}
          </Button>
          {!done.data && (
            <Button loading={done.isPending || compared.isFetching} disabled={wanted === 0} onClick={() => done.mutate(undefined)}>
              {wanted === 0 ? "Nothing to import" : `Import ${plural(wanted, "object")}`}
            </Button>
          )}
        </Group>
      </Stack>
    </Modal>
  );
}

/** Whether an import changes anything in the step. */
const changes = ({ action }: Step) => action === "create" || action === "overwrite";
