import { Button, Stack, Text } from "@mantine/core";
import { Download } from "lucide-react";
import { answer, api } from "../../api/client";
import { useChange } from "../../api/queries";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { save } from "../../parts/chart";
import { ConfigurationPanel } from "./configuration";

/** The array's downloads. */
export function SupportPanel() {
  return (
    <Stack gap="md">
      <ConfigurationPanel />
      <BundlePanel />
    </Stack>
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
    <Panel
      title="Support bundle"
      actions={
        <Button variant="default" size="compact-sm" leftSection={<Download size={14} aria-hidden />} loading={bundle.isPending} onClick={() => bundle.mutate(undefined)}>
          Download
        </Button>
      }
    >
      <ProblemAlert error={bundle.error} />
      <Text size="sm">
        For remote support: configuration, state, events, measurements and the last log lines, without any secret. Unpack it with <code>tar --zstd -xf</code> and read what you give away.
      </Text>
    </Panel>
  );
}
