import { Button, Code, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Download } from "lucide-react";
import type { ReactNode } from "react";
import { answer, api } from "../../api/client";
import { array, useChange } from "../../api/queries";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { save } from "../../parts/chart";

/** What the array gives away as files. */
export function SupportPanel() {
  return (
    <Stack gap="md">
      <ConfigurationPanel />
      <BundlePanel />
    </Stack>
  );
}

/** The configuration as one document. */
function ConfigurationPanel() {
  const name = useQuery(array()).data?.name ?? "ashlar";
  const document = useChange({
    run: () => answer(api.GET("/api/v1/configuration")),
    done: () => "The configuration is downloaded.",
    then: (document) => save(new Blob([JSON.stringify(document, null, 2), "\n"], { type: "application/json" }), `${name}-configuration.json`),
  });
  return (
    <DownloadPanel title="Configuration" label="Export" download={document}>
      One document with hosts, volumes without contents, connections, schedules, users and settings. It has no secrets and says what it leaves out. <Code>ashlar config import FILE</Code> compares it with an array and creates there what is missing.
    </DownloadPanel>
  );
}

/** The support bundle. */
function BundlePanel() {
  const bundle = useChange({
    run: async () => {
      const packed: Blob = await answer(api.GET("/api/v1/support-bundle", { parseAs: "blob" }));
      return packed;
    },
    done: () => "The support bundle is downloaded.",
    then: (packed) => save(packed, "ashlar-support.tar.zst"),
  });
  return (
    <DownloadPanel title="Support bundle" label="Download" download={bundle}>
      For remote support: configuration, state, events, measurements and the last log lines, without any secret. Unpack it with <code>tar --zstd -xf</code> and read what you give away.
    </DownloadPanel>
  );
}

interface Change {
  isPending: boolean;
  error: Error | null;
  mutate: (nothing: undefined) => void;
}

/** A file to download, and what it is. */
function DownloadPanel({ title, label, download, children }: { title: string; label: string; download: Change; children: ReactNode }) {
  return (
    <Panel
      title={title}
      actions={
        <Button variant="default" size="compact-sm" leftSection={<Download size={14} aria-hidden />} loading={download.isPending} onClick={() => download.mutate(undefined)}>
          {label}
        </Button>
      }
    >
      <ProblemAlert error={download.error} />
      <Text size="sm">{children}</Text>
    </Panel>
  );
}
