/** The map of the site: every address, and the page it shows. */
import { Route, Switch } from "wouter";
import { useSession } from "./api/session";
import { DashboardPage } from "./pages/dashboard/page";
import { PerformancePage } from "./pages/performance/page";
import { AlertsPage } from "./pages/alerts/page";
import { DrivesPage } from "./pages/drives/page";
import { AuditPage } from "./pages/events/audit";
import { EventsPage } from "./pages/events/events";
import { GroupPage } from "./pages/groups/group";
import { GroupsPage } from "./pages/groups/list";
import { HostGroupPage } from "./pages/host-groups/group";
import { HostGroupsPage } from "./pages/host-groups/list";
import { HostPage } from "./pages/hosts/host";
import { HostsPage } from "./pages/hosts/list";
import { JobsPage } from "./pages/jobs/page";
import { AskingPage, LoginPage } from "./pages/login";
import { NotFoundPage } from "./pages/not-found";
import { RecycleBinPage } from "./pages/recycle-bin/page";
import { SchedulesPage } from "./pages/schedules/page";
import { SettingsPage } from "./pages/settings/page";
import { SetupPage } from "./pages/setup/page";
import { SnapshotsPage } from "./pages/snapshots/list";
import { SnapshotPage } from "./pages/snapshots/snapshot";
import { VolumesPage } from "./pages/volumes/list";
import { VolumePage } from "./pages/volumes/volume";
import { Shell } from "./shell";

export function App() {
  const { at } = useSession();
  if (at === "asking") return <AskingPage />;
  if (at === "out") return <LoginPage />;
  return (
    <Shell>
      <Switch>
        <Route path="/" component={DashboardPage} />
        <Route path="/volumes" component={VolumesPage} />
        <Route path="/volumes/:name">{({ name }) => <VolumePage name={decodeURIComponent(name)} />}</Route>
        <Route path="/hosts" component={HostsPage} />
        <Route path="/hosts/:name">{({ name }) => <HostPage name={decodeURIComponent(name)} />}</Route>
        <Route path="/groups" component={GroupsPage} />
        <Route path="/groups/:name">{({ name }) => <GroupPage name={decodeURIComponent(name)} />}</Route>
        <Route path="/snapshots" component={SnapshotsPage} />
        <Route path="/snapshots/:name">{({ name }) => <SnapshotPage name={decodeURIComponent(name)} />}</Route>
        <Route path="/schedules" component={SchedulesPage} />
        <Route path="/host-groups" component={HostGroupsPage} />
        <Route path="/host-groups/:name">{({ name }) => <HostGroupPage name={decodeURIComponent(name)} />}</Route>
        <Route path="/recycle-bin" component={RecycleBinPage} />
        <Route path="/performance" component={PerformancePage} />
        <Route path="/drives" component={DrivesPage} />
        <Route path="/alerts" component={AlertsPage} />
        <Route path="/jobs" component={JobsPage} />
        <Route path="/events" component={EventsPage} />
        <Route path="/audit" component={AuditPage} />
        <Route path="/setup" component={SetupPage} />
        <Route path="/settings/:part?">{({ part }) => <SettingsPage part={part} />}</Route>
        <Route component={NotFoundPage} />
      </Switch>
    </Shell>
  );
}
