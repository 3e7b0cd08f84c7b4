/** The interface: log-in, or the page at the address. */
import { Skeleton } from "@mantine/core";
import { lazy, Suspense } from "react";
import { Route, Switch } from "wouter";
import { useSession } from "./api/session";
import { LoginPage } from "./pages/login";
import { SECTIONS, SettingsPage } from "./pages/map";
import { NotFoundPage } from "./pages/not-found";
import { Asking, Shell } from "./shell";

const ReferencePage = lazy(() => import("./pages/reference/page").then((it) => ({ default: it.ReferencePage })));
const SearchPage = lazy(() => import("./pages/search/page").then((it) => ({ default: it.SearchPage })));
const SetupPage = lazy(() => import("./pages/setup/page").then((it) => ({ default: it.SetupPage })));

const PAGES = SECTIONS.flatMap(({ pages }) => pages);

export function App() {
  const { at } = useSession();
  if (at === "asking") return <Asking />;
  if (at === "out") return <LoginPage />;
  return (
    <Shell>
      <Suspense fallback={<Skeleton height={180} />}>
        <Switch>
          {PAGES.map(({ path, page }) => (
            <Route key={path} path={path} component={page} />
          ))}
          {PAGES.flatMap(({ path, one: One }) =>
            One ? [<Route key={`${path}/:name`} path={`${path}/:name`}>{({ name }: { name: string }) => <One name={decodeURIComponent(name)} />}</Route>] : [],
          )}
          <Route path="/search" component={SearchPage} />
          <Route path="/setup" component={SetupPage} />
          <Route path="/reference" component={ReferencePage} />
          <Route path="/settings/:part">{({ part }) => <SettingsPage part={part} />}</Route>
          <Route component={NotFoundPage} />
        </Switch>
      </Suspense>
    </Shell>
  );
}
