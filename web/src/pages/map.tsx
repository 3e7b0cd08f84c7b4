/** The map of the site: every page with its address and its entry in the navigation. A new noun has a line here. */
import { ArrowRightLeft, Bell, Boxes, CalendarClock, Camera, ChartLine, ClipboardList, Cpu, Database, HardDrive, LayoutDashboard, ListTodo, Network, ScrollText, Server, Settings, Trash2, type LucideIcon } from "lucide-react";
import { lazy, type ComponentType } from "react";
import type { SchemaRole as Role } from "../api/schema";
import { AlertsPage } from "./alerts/page";
import { ControllersPage } from "./controllers/page";
import { DashboardPage } from "./dashboard/page";
import { DrivesPage } from "./drives/page";
import { AuditPage } from "./events/audit";
import { EventsPage } from "./events/events";
import { GroupPage } from "./groups/group";
import { GroupsPage } from "./groups/list";
import { HostGroupPage } from "./host-groups/group";
import { HostGroupsPage } from "./host-groups/list";
import { HostPage } from "./hosts/host";
import { HostsPage } from "./hosts/list";
import { JobsPage } from "./jobs/page";
import { RecycleBinPage } from "./recycle-bin/page";
import { ReplicationsPage } from "./replications/page";
import { ReplicationPage } from "./replications/replication";
import { SchedulesPage } from "./schedules/page";
import { SnapshotsPage } from "./snapshots/list";
import { SnapshotPage } from "./snapshots/snapshot";
import { VolumesPage } from "./volumes/list";
import { VolumePage } from "./volumes/volume";

// Large pages other than the first are fetched when they are opened.
const PerformancePage = lazy(() => import("./performance/page").then((it) => ({ default: it.PerformancePage })));
export const SettingsPage = lazy(() => import("./settings/page").then((it) => ({ default: it.SettingsPage })));

export type PageEntry = {
  path: string;
  label: string;
  icon: LucideIcon;
  /** The role that sees the page in the navigation; without it all users see it. */
  role?: Role;
  page: ComponentType;
  /** The page of one object, at the path followed by the object's name. */
  one?: ComponentType<{ name: string }>;
};

/** Sections of the navigation. */
export const SECTIONS: { title: string; pages: PageEntry[] }[] = [
  {
    title: "",
    pages: [
      { path: "/", label: "Dashboard", icon: LayoutDashboard, page: DashboardPage },
      { path: "/performance", label: "Performance", icon: ChartLine, page: PerformancePage },
    ],
  },
  {
    title: "Storage",
    pages: [
      { path: "/volumes", label: "Volumes", icon: Database, page: VolumesPage, one: VolumePage },
      { path: "/groups", label: "Volume groups", icon: Boxes, page: GroupsPage, one: GroupPage },
      { path: "/snapshots", label: "Snapshots", icon: Camera, page: SnapshotsPage, one: SnapshotPage },
      { path: "/schedules", label: "Schedules", icon: CalendarClock, page: SchedulesPage },
      { path: "/replications", label: "Replication", icon: ArrowRightLeft, page: ReplicationsPage, one: ReplicationPage },
      { path: "/recycle-bin", label: "Recycle bin", icon: Trash2, page: RecycleBinPage },
    ],
  },
  {
    title: "Access",
    pages: [
      { path: "/hosts", label: "Hosts", icon: Server, page: HostsPage, one: HostPage },
      { path: "/host-groups", label: "Host groups", icon: Network, page: HostGroupsPage, one: HostGroupPage },
    ],
  },
  {
    title: "System",
    pages: [
      { path: "/controllers", label: "Controllers", icon: Cpu, page: ControllersPage },
      { path: "/drives", label: "Drives", icon: HardDrive, page: DrivesPage },
      { path: "/alerts", label: "Alerts", icon: Bell, page: AlertsPage },
      { path: "/jobs", label: "Jobs", icon: ListTodo, page: JobsPage },
      { path: "/events", label: "Events", icon: ScrollText, page: EventsPage },
      { path: "/audit", label: "Audit log", icon: ClipboardList, role: "admin", page: AuditPage },
      { path: "/settings", label: "Settings", icon: Settings, page: () => <SettingsPage /> },
    ],
  },
];
