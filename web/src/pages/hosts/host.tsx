import { Button, SimpleGrid } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Pencil, Trash2 } from "lucide-react";
import { useState } from "react";
import { Link } from "wouter";
import { answer, api } from "../../api/client";
import { host } from "../../api/queries";
import type { SchemaHost as Host } from "../../api/schema";
import { moment, plural } from "../../format";
import { CopyText } from "../../parts/copy";
import { Dot } from "../../parts/dot";
import { LabelsPanel } from "../../parts/labels";
import { May } from "../../parts/may";
import { NounPage } from "../../parts/noun-page";
import { Panel } from "../../parts/panel";
import { ChangeHost, DeleteHost } from "./forms";
import { Instructions } from "./instructions";
import { RefusedLogins } from "./refused";
import { SeenVolumes } from "./seen";

export function HostPage({ name }: { name: string }) {
  const object = useQuery(host(name));
  const [deleting, setDeleting] = useState(false);
  const [changing, setChanging] = useState(false);
  return (
    <NounPage
      name={name}
      object={object}
      above={{ label: "Hosts", path: "/hosts" }}
      beside={(data) => (data.sessions > 0 ? <Dot color="teal" label={plural(data.sessions, "session")} /> : <Dot color="gray" label="not logged in" />)}
      actions={() => (
        <May>
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
          <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
            <Facts host={data} />
            <Seen host={data} />
            <LabelsPanel of={data.name} labels={data.labels} save={(labels) => answer(api.PATCH("/api/v1/hosts/{name}", { params: { path: { name: data.name } }, body: { labels } }))} />
          </SimpleGrid>
          <RefusedLogins title="Refused log-ins" refused={data.refused_logins} />
          <Panel title="Commands for the host">
            <Instructions host={data} />
          </Panel>
          <ChangeHost key={`${data.name} ${[...data.initiators, ...data.nqns].join(" ")} ${data.chap_user ?? ""}`} host={data} opened={changing} onClose={() => setChanging(false)} />
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
          {[...host.initiators, ...host.nqns].map((name) => (
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
        <dt>Added</dt>
        <dd className="number">{moment(host.created)}</dd>
      </dl>
    </Panel>
  );
}

function Seen({ host }: { host: Host }) {
  const action = (
    <Button component={Link} href="/volumes" variant="default">
      To the volumes
    </Button>
  );
  return <SeenVolumes by="host" connections={host.connections} empty={{ title: "No volumes", text: "Open a volume, or create one, and connect it to this host.", action }} />;
}
