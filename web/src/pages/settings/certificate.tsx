import { Button, Group, Skeleton, Text, Textarea } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { Download, Replace } from "lucide-react";
import { useState } from "react";
import { answer, api } from "../../api/client";
import { certificate, useChange } from "../../api/queries";
import { moment } from "../../format";
import { save } from "../../parts/chart";
import { Terminal } from "../../parts/copy";
import { FormModal } from "../../parts/form";
import { May } from "../../parts/may";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";

/** The certificate that the array sends to browsers and programs. */
export function CertificatePanel() {
  const { data, error } = useQuery(certificate());
  const [opened, setOpened] = useState(false);
  return (
    <Panel
      title="Certificate"
      actions={
        <Group gap="xs">
          {data && (
            <Button variant="default" size="compact-sm" leftSection={<Download size={14} aria-hidden />} onClick={() => save(new Blob([data.chain], { type: "application/x-pem-file" }), "ashlar.pem")}>
              Download
            </Button>
          )}
          <May role="admin">
            <Button variant="default" size="compact-sm" leftSection={<Replace size={14} aria-hidden />} onClick={() => setOpened(true)}>
              Replace
            </Button>
          </May>
        </Group>
      }
    >
      <ProblemAlert error={error} />
      {!data && !error && <Skeleton height={220} />}
      {data && (
        <>
          <dl className="facts" style={{ marginBottom: 12 }}>
            <dt>In use since</dt>
            <dd className="number">{moment(data.since)}</dd>
            <Fingerprint chain={data.chain} />
          </dl>
          <Text size="sm" mb={6}>
            Give this text to programs that must trust the array.
          </Text>
          <Terminal text={data.chain.trim()} label="Copy the certificate" />
        </>
      )}
      <ReplaceCertificate opened={opened} onClose={() => setOpened(false)} />
    </Panel>
  );
}

/** The certificate's fingerprint as browsers show it, to compare; left out if the browser can't compute it. */
function Fingerprint({ chain }: { chain: string }) {
  const { data } = useQuery({ queryKey: ["fingerprint", chain], queryFn: () => fingerprint(chain), staleTime: Infinity });
  if (!data) return null;
  return (
    <>
      <dt>SHA-256</dt>
      <dd style={{ fontFamily: "var(--mantine-font-family-monospace)", fontSize: 12 }}>{data}</dd>
    </>
  );
}

/** The digest of the first certificate of the chain, as `AB:CD:…`. */
async function fingerprint(chain: string): Promise<string | null> {
  const first = /-----BEGIN CERTIFICATE-----([^-]+)-----END/.exec(chain)?.[1];
  // Browsers compute digests only in a secure context, such as over TLS or on the same machine.
  if (!first || !window.isSecureContext) return null;
  const digest = await crypto.subtle.digest("SHA-256", Uint8Array.from(atob(first.replace(/\s/g, "")), (it) => it.charCodeAt(0)));
  return [...new Uint8Array(digest)].map((it) => it.toString(16).padStart(2, "0").toUpperCase()).join(":");
}

const pem = (text: string, what: string) => (text.includes("-----BEGIN ") && text.includes(`${what}-----`) ? null : `Paste text that begins with “-----BEGIN … ${what}-----”.`);

function ReplaceCertificate({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const form = useForm({
    initialValues: { chain: "", key: "" },
    validate: { chain: (text) => pem(text, "CERTIFICATE"), key: (text) => pem(text, "PRIVATE KEY") },
  });
  const close = () => {
    onClose();
    form.reset();
    replace.reset();
  };
  const replace = useChange({
    run: (body: typeof form.values) => answer(api.PUT("/api/v1/certificate", { body })),
    done: () => "New connections get the new certificate.",
    then: close,
  });
  return (
    <FormModal opened={opened} onClose={close} title="Replace the certificate" verb="Replace" busy={replace.isPending} error={replace.error} onSubmit={form.onSubmit((values) => replace.mutate(values))}>
      <Textarea label="Certificate chain" description="PEM, the array’s own certificate first." placeholder="-----BEGIN CERTIFICATE-----" rows={6} spellCheck={false} autoComplete="off" styles={MONO} data-autofocus required {...form.getInputProps("chain")} />
      <Textarea label="Private key" description="PEM. It is stored encrypted and never shown." placeholder="-----BEGIN PRIVATE KEY-----" rows={5} spellCheck={false} autoComplete="off" styles={MONO} required {...form.getInputProps("key")} />
    </FormModal>
  );
}

const MONO = { input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 12 } };
