import { Group, Switch } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { CalendarClock, Pencil, Play, Trash2 } from "lucide-react";
import { useState } from "react";
import { Link } from "wouter";
import { answer, api } from "../../api/client";
import { schedules, useChange } from "../../api/queries";
import { useMay } from "../../api/session";
import type { SchemaSchedule as Schedule } from "../../api/schema";
import { count, duration, moment } from "../../format";
import { Act } from "../../parts/act";
import { May } from "../../parts/may";
import { NounList } from "../../parts/noun-list";
import type { Column } from "../../parts/table";
import { useOpened } from "../../parts/use-opened";
import { Rules } from "./rules";
import { DeleteSchedule, ScheduleForm } from "./forms";

type Task = { verb: "change" | "delete"; schedule: Schedule };

export function SchedulesPage() {
  const list = useQuery(schedules());
  const create = useOpened("new");
  const [task, setTask] = useState<Task>();
  const close = () => setTask(undefined);
  const may = useMay("operator");
  const enable = useChange({
    run: ({ name, enabled }: { name: string; enabled: boolean }) => answer(api.PATCH("/api/v1/schedules/{name}", { params: { path: { name } }, body: { enabled } })),
    done: (now) => `Schedule ${now.name} is ${now.enabled ? "on" : "off"}.`,
  });
  const run = useChange({
    run: (name: string) => answer(api.POST("/api/v1/schedules/{name}/run", { params: { path: { name } } })),
    done: (_, name) => `Schedule ${name} ran.`,
  });
  const columns: Column<Schedule>[] = [
    { name: "Name", key: (it) => it.name, cell: (it) => <b className="cut" style={{ fontWeight: 500 }} title={it.name}>{it.name}</b> },
    { name: "Source", key: (it) => it.volume ?? it.group ?? "", cell: (it) => <Subject schedule={it} /> },
    { name: "Retention", cell: (it) => <Rules rules={it.rules} /> },
    { name: "Retention lock", key: (it) => it.immutable_seconds, cell: (it) => (it.immutable_seconds > 0 ? duration(it.immutable_seconds) : <span className="quiet">–</span>), wide: true },
    { name: "Snapshots", key: (it) => it.snapshots, cell: (it) => count(it.snapshots), right: true, wide: true },
    { name: "Next run", key: (it) => it.next ?? "", cell: (it) => (it.next && it.enabled ? <span className="number">{moment(it.next)}</span> : <span className="quiet">never</span>), wide: true },
    { name: "Enabled", key: (it) => Number(it.enabled), cell: (it) => <Switch aria-label={`${it.name} is active`} checked={it.enabled} disabled={!may} onChange={(event) => enable.mutate({ name: it.name, enabled: event.currentTarget.checked })} /> },
    {
      name: "",
      right: true,
      cell: (it) => (
        <Group gap={4} justify="flex-end" wrap="nowrap">
          <May>
            <Act label={`Run ${it.name} now`} icon={Play} onClick={() => run.mutate(it.name)} />
            <Act label={`Change ${it.name}`} icon={Pencil} onClick={() => setTask({ verb: "change", schedule: it })} />
            <Act label={`Delete ${it.name}`} icon={Trash2} onClick={() => setTask({ verb: "delete", schedule: it })} />
          </May>
        </Group>
      ),
    },
  ];
  return (
    <NounList
      title="Schedules"
      above={{ label: "Snapshots", path: "/snapshots" }}
      noun="schedule"
      list={list}
      problem={enable.error ?? run.error}
      columns={columns}
      id={(it) => it.name}
      text={(it) => `${it.name} ${it.volume} ${it.group}`}
      create={{ label: "Create schedule", onClick: create.open }}
      empty={{ icon: CalendarClock, title: "No schedules yet", text: "A schedule takes snapshots of a volume or volume group regularly, and eradicates old ones according to its retention rules." }}
    >
      <ScheduleForm opened={create.opened} onClose={create.close} />
      {task?.verb === "change" && <ScheduleForm schedule={task.schedule} opened onClose={close} />}
      {task?.verb === "delete" && <DeleteSchedule schedule={task.schedule} onClose={close} />}
    </NounList>
  );
}

function Subject({ schedule: { volume, group } }: { schedule: Schedule }) {
  const [kind, name] = volume ? ["volumes", volume] : ["groups", group ?? ""];
  return (
    <Link className="plain cut" title={name} href={`/${kind}/${encodeURIComponent(name)}`}>
      {name}
    </Link>
  );
}
