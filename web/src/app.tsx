/** The map of the site: every address, and the page it shows. */
import { Route, Switch } from "wouter";
import { useSession } from "./api/session";
import { DashboardPage } from "./pages/dashboard/page";
import { HostPage } from "./pages/hosts/host";
import { HostsPage } from "./pages/hosts/list";
import { LoginPage } from "./pages/login";
import { NotFoundPage } from "./pages/not-found";
import { VolumesPage } from "./pages/volumes/list";
import { VolumePage } from "./pages/volumes/volume";
import { Shell } from "./shell";

export function App() {
  const { signedIn } = useSession();
  if (!signedIn) return <LoginPage />;
  return (
    <Shell>
      <Switch>
        <Route path="/" component={DashboardPage} />
        <Route path="/volumes" component={VolumesPage} />
        <Route path="/volumes/:name">{({ name }) => <VolumePage name={decodeURIComponent(name)} />}</Route>
        <Route path="/hosts" component={HostsPage} />
        <Route path="/hosts/:name">{({ name }) => <HostPage name={decodeURIComponent(name)} />}</Route>
        <Route component={NotFoundPage} />
      </Switch>
    </Shell>
  );
}
