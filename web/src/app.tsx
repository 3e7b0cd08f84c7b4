/** The interface: log-in, or the page at the address. */
import { Route, Switch } from "wouter";
import { useSession } from "./api/session";
import { AskingPage, LoginPage } from "./pages/login";
import { SECTIONS } from "./pages/map";
import { NotFoundPage } from "./pages/not-found";
import { SettingsPage } from "./pages/settings/page";
import { SetupPage } from "./pages/setup/page";
import { Shell } from "./shell";

const PAGES = SECTIONS.flatMap(({ pages }) => pages);

export function App() {
  const { at } = useSession();
  if (at === "asking") return <AskingPage />;
  if (at === "out") return <LoginPage />;
  return (
    <Shell>
      <Switch>
        {PAGES.map(({ path, page }) => (
          <Route key={path} path={path} component={page} />
        ))}
        {PAGES.flatMap(({ path, one: One }) =>
          One ? [<Route key={`${path}/:name`} path={`${path}/:name`}>{({ name }: { name: string }) => <One name={decodeURIComponent(name)} />}</Route>] : [],
        )}
        <Route path="/setup" component={SetupPage} />
        <Route path="/settings/:part">{({ part }) => <SettingsPage part={part} />}</Route>
        <Route component={NotFoundPage} />
      </Switch>
    </Shell>
  );
}
