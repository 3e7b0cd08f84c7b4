import { Button, SimpleGrid } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link2, Pencil, Trash2 } from "lucide-react";
import { useState } from "react";
import { answer, api } from "../../api/client";
import { host } from "../../api/queries";
import type { SchemaHost as Host } from "../../api/schema";
import { moment } from "../../format";
import { CopyText } from "../../parts/copy";
import { LabelsPanel } from "../../parts/labels";
import { May } from "../../parts/may";
import { NounPage } from "../../parts/noun-page";
import { Panel } from "../../parts/panel";
import { NowPanel } from "../dashboard/now";
import { ConnectToHost } from "./connect";
import { FibreChannelPanel } from "./fibre-channel";
import { ChangeHost, DeleteHost } from "./forms";
import { Instructions } from "./instructions";
import { PathsPanel } from "./paths";
import { RefusedLogins } from "./refused";
import { SeenVolumes } from "./seen";
import { sessionCount } from "./sessions";
import { HostState } from "./state";

export function HostPage({ name }: { name: string }) {
  const object = useQuery(host(name));
  const [deleting, setDeleting] = useState(false);
  const [changing, setChanging] = useState(false);
  const [connecting, setConnecting] = useState(false);
  return (
    <NounPage
      name={name}
      object={object}
      above={{ label: "Hosts", path: "/hosts" }}
      beside={(data) => <HostState host={data} />}
      actions={() => (
        <May>
          <Button leftSection={<Link2 size={16} aria-hidden />} onClick={() => setConnecting(true)}>
            Connect
          </Button>
          <Button variant="default" leftSection={<Pencil size={15} aria-hidden />} onClick={() => setChanging(true)}>
            Change
          </Button>
          <Button variant="default" leftSection={<Trash2 size={15} aria-hidden />} onClick={() => setDeleting(true)}>
            Delete
          </Button>
        </May>
      )}
    >
      {(data) => (
        <>
          <RefusedLogins title="Refused log-ins" refused={data.refused_logins} />
          {sessionCount(data) > 0 && <NowPanel scope={{ kind: "host", name: data.name }} />}
          <PathsPanel host={data} />
          <FibreChannelPanel host={data} />
          <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
            <Seen host={data} onConnect={() => setConnecting(true)} />
            <Facts host={data} />
            <LabelsPanel of={data.name} labels={data.labels} save={(labels) => answer(api.PATCH("/api/v1/hosts/{name}", { params: { path: { name: data.name } }, body: { labels } }))} />
          </SimpleGrid>
          <Panel title="Commands for the host">
            <Instructions host={data} />
          </Panel>
          <ChangeHost key={`${data.name} ${[...data.initiators, ...data.nqns, ...data.wwpns].join(" ")} ${data.chap_user ?? ""}`} host={data} opened={changing} onClose={() => setChanging(false)} />
          <ConnectToHost host={data} opened={connecting} onClose={() => setConnecting(false)} />
          <DeleteHost host={data} opened={deleting} onClose={() => setDeleting(false)} />
        </>
      )}
    </NounPage>
  );
}

function Facts({ host }: { host: Host }) {
  return (
    <Panel title="Identity">
      <dl className="facts">
        <dt>Initiators</dt>
        <dd>
          {[...host.initiators, ...host.nqns, ...host.wwpns].map((name) => (
            <div key={name}>
              {name} <CopyText text={name} label={`Copy ${name}`} />
            </div>
          ))}
        </dd>
        <dt>CHAP</dt>
        <dd>{host.chap_user ? `user ${host.chap_user}` : "not required"}</dd>
        {host.mutual_user && (
          <>
            <dt>Mutual CHAP</dt>
            <dd>user {host.mutual_user}</dd>
          </>
        )}
        {(host.nqns.length > 0 || host.dhchap || host.tls) && (
          <>
            <dt>DH-HMAC-CHAP</dt>
            <dd>{host.dhchap ? (host.dhchap_controller ? "required; the array authenticates if the host asks" : "required") : "not required"}</dd>
            <dt>TLS</dt>
            <dd>{host.tls ? "required, by a PSK" : "not required"}</dd>
          </>
        )}
        <dt>Added</dt>
        <dd className="number">{moment(host.created)}</dd>
      </dl>
    </Panel>
  );
}

function Seen({ host, onConnect }: { host: Host; onConnect: () => void }) {
  const action = (
    <May>
      <Button onClick={onConnect}>Connect volumes</Button>
    </May>
  );
  return <SeenVolumes by="host" connections={host.connections} empty={{ title: "No volumes", text: "Connect a volume: the host finds it as a new disk after a rescan.", action }} />;
}
